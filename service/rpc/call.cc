#include "service/rpc/call.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/io/log_fields.h"
#include "base/io/paths.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/text/printable.h"
#include "service/net/sockets.h"
#include "service/rpc/status_map.h"

namespace recollect::service {
namespace {

// By SteadyNow(). gRPC gives the wall clock's time at which what is left will have passed.
absl::Time Deadline(const Context& context) {
  const absl::Duration left = absl::FromChrono(context.deadline()) - absl::Now();
  // Without a deadline gRPC reports the far future.
  return left > absl::Hours(24 * 365) ? absl::InfiniteFuture() : SteadyNow() + left;
}

// Of several, which nobody needs to send, none counts.
absl::string_view SentKey(const Context& context) {
  const auto& metadata = context.client_metadata();
  if (metadata.count("authorization") != 1) return "";
  const grpc::string_ref value = metadata.find("authorization")->second;
  return {value.data(), value.size()};
}

// A browser that speaks TLS with this port may send a POST for any page that it shows, and marks it
// with the page's site. Without keys that is all that tells it from a program.
absl::Status CheckNoPage(const Context& context) {
  constexpr size_t kMaxShown = 100;
  const auto& metadata = context.client_metadata();
  const auto origin = metadata.find("origin");
  if (origin == metadata.end()) return absl::OkStatus();
  const absl::string_view value(origin->second.data(), origin->second.size());
  return absl::PermissionDeniedError(
      absl::StrCat("origin: '", model::Shortened(model::EscapeInvisible(value), kMaxShown),
                   "' is a web page, and this server asks for no keys: start it with --keys"));
}

class UnaryCall final : public Unary {
 public:
  UnaryCall(Runtime& runtime, const char* method, Context* context,
            std::function<void()> undo = nullptr)
      : call_(runtime, method, context), undo_(std::move(undo)) {}

  Call& call() { return call_; }
  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }
  void End(absl::Status status) { Finish(call_.End(std::move(status))); }

 private:
  void OnCancel() override { cancellation_->Cancel(); }
  // Last of all: only now is it known whether the answer has got out.
  void OnDone() override {
    if (undo_ != nullptr && cancellation_->cancelled() && !call_.runtime().Post(undo_).ok())
      undo_();  // no thread may wait for the disk now, so this one does
    delete this;
  }

  Call call_;
  const std::function<void()> undo_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
};

}  // namespace

absl::Status Runtime::Post(std::function<void()> work) {
  const absl::StatusOr<bool> posted = OrExhausted(
      "a call", [&]() -> absl::StatusOr<bool> { return executor.Post(std::move(work)); });
  RETURN_IF_ERROR(posted.status());
  if (*posted) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("calls waiting for a thread: ", kMaxQueued, ", limit ", kMaxQueued));
}

Call::Call(Runtime& runtime, const char* method, Context* context)
    : runtime_(runtime),
      method_(method),
      context_(context),
      number_(runtime.next_call.fetch_add(1)),
      start_(SteadyNow()),
      deadline_(Deadline(*context)) {
  runtime_.metrics.Start(method_);
}

absl::Status Call::Admit(Authorization authorize) {
  if (runtime_.draining) return absl::UnavailableError("the server is draining");
  if (runtime_.guard == nullptr) {
    RETURN_IF_ERROR(CheckNoPage(*context_));
    caller_ = access::Caller::Anybody();
  } else {
    ASSIGN_OR_RETURN(caller_, runtime_.guard->Admit(SentKey(*context_)));
  }
  return authorize(caller_);
}

absl::Status Call::CheckStill() const {
  return runtime_.guard == nullptr ? absl::OkStatus() : runtime_.guard->CheckStill(caller_);
}

std::string Call::peer_address() const { return PeerAddress(PeerName(context_->peer())); }

engine::Origin Call::origin() const {
  return {.peer = peer_address(), .owner = caller_.name(), .account = caller_.account()};
}

grpc::Status Call::End(absl::Status status) {
  const absl::Time now = SteadyNow();
  // gRPC tells of a passed deadline as a cancellation; the caller sees it as what it is.
  if (absl::IsCancelled(status) && now >= deadline_)
    status = absl::DeadlineExceededError(status.message());
  const absl::Duration elapsed = now - start_;
  runtime_.metrics.End(method_, status.code(), elapsed);
  const bool ours = absl::IsInternal(status) || absl::IsDataLoss(status) || absl::IsUnknown(status);
  // Messages quote what callers sent: escaped, so that nobody writes a line of their own.
  LogEnd(ours ? LogLevel::kError : LogLevel::kInfo, status.code(),
         absl::ToDoubleMilliseconds(elapsed), model::EscapeInvisible(status.message()));
  // By which a caller can name the line.
  context_->AddTrailingMetadata("x-request-id", absl::StrCat(number_));
  if (const auto wait = access::RetryAfter(status); wait.has_value())
    context_->AddTrailingMetadata("retry-after", absl::StrCat(absl::ToInt64Seconds(*wait) + 1));
  if (absl::IsUnavailable(status) && !runtime_.draining) runtime_.check_health();
  if (runtime_.shows_paths) return ToGrpc(status);
  return ToGrpc(absl::Status(status.code(), WithoutPaths(status.message())));
}

void Call::LogEnd(LogLevel level, absl::StatusCode code, double ms,
                  const std::string& message) const {
  if (!LogEnabled(level)) return;
  const std::string status = absl::StatusCodeToString(code), peer = PeerName(context_->peer());
  std::vector<LogField> fields = {
      {"request", number_}, {"method", method_}, {"code", status}, {"ms", ms}, {"peer", peer}};
  const bool keyed = caller_.key() != nullptr;
  if (keyed) fields.push_back({"key", caller_.name()});
  if (!message.empty()) fields.push_back({"error", message});
  LogEvent(
      level, "call", fields,
      fmt::format("call {} {} {} {:.1f} ms peer {}{}{}{}{}", number_, method_, status, ms, peer,
                  keyed ? " key " : "", caller_.name(), message.empty() ? "" : ": ", message));
}

void Cancellation::Set(std::shared_ptr<engine::RequestHandle> handle) {
  if (handle == nullptr) return;
  {
    MutexLock lock(mutex_);
    if (!cancelled_) {
      handle_ = std::move(handle);
      return;
    }
  }
  handle->Cancel();
}

void Cancellation::Cancel() {
  std::shared_ptr<engine::RequestHandle> handle;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    handle = std::move(handle_);
  }
  if (handle != nullptr) handle->Cancel();
}

bool Cancellation::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

Unary* RunAuthorizedOnPool(Runtime& runtime, const char* method, Context* context,
                           Call::Authorization authorize, Body body, std::function<void()> undo) {
  // Deletes itself in OnDone.
  auto* reactor = new UnaryCall(runtime, method, context, std::move(undo));
  absl::Status admitted = reactor->call().Admit(authorize);
  if (admitted.ok()) {
    admitted = runtime.Post([reactor, body = std::move(body)] {
      const bool gone = reactor->cancellation()->cancelled();
      reactor->End(gone ? absl::CancelledError("cancelled before it ran")
                        : OrExhausted("a call", [&] { return body(reactor->call().caller()); }));
    });
  }
  if (!admitted.ok()) reactor->End(admitted);
  return reactor;
}

Unary* RunAuthorizedAsync(Runtime& runtime, const char* method, Context* context,
                          Call::Authorization authorize, const Start& start) {
  auto* reactor = new UnaryCall(runtime, method, context);
  if (absl::Status admitted = reactor->call().Admit(authorize); !admitted.ok()) {
    reactor->End(admitted);
    return reactor;
  }
  const std::shared_ptr<Cancellation> cancellation = reactor->cancellation();
  const absl::Status started = OrExhausted("a call", [&] {
    cancellation->Set(start(reactor->call(),
                            [reactor](absl::Status status) { reactor->End(std::move(status)); }));
    return absl::OkStatus();
  });
  if (!started.ok()) reactor->End(started);
  return reactor;
}

}  // namespace recollect::service
