#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/sync/mutex.h"
#include "service/rpc/services.h"

namespace recollect::service {
namespace {

// Sends the latest progress whenever what was sent before is on its way: a client that is slow
// misses some, and holds one message.
class RefreshCall final : public grpc::ServerWriteReactor<v1::RefreshDocumentResponse> {
 public:
  RefreshCall(Runtime& runtime, engine::Engine& engine, Context* context,
              const v1::RefreshDocumentRequest& request)
      : call_(runtime, kMethod<v1::RefreshDocumentRequest>.name, context),
        engine_(engine),
        id_(request.id()) {
    absl::Status begun = call_.AdmitFor(request);
    if (begun.ok()) begun = call_.runtime().Post([this] { Begin(); });
    if (!begun.ok()) Finish(call_.End(std::move(begun)));
  }

 private:
  // Waits for the disk.
  void Begin() {
    const engine::Origin origin{.peer = call_.peer_address(), .account = call_.caller().account()};
    // The call may have ended, and gone, before the engine returns.
    const std::shared_ptr<Cancellation> cancellation = cancellation_;
    cancellation->Set(engine_.RefreshDocument(
        id_, origin, [this](const engine::IngestStatus& status) { Tell(status); },
        [this](const absl::StatusOr<store::DocumentInfo>& info) { End(info); }));
  }

  void Tell(const engine::IngestStatus& status) {
    {
      MutexLock lock(mutex_);
      next_.emplace();
      *next_->mutable_progress() = Encode(status);
    }
    Go();
  }

  void End(const absl::StatusOr<store::DocumentInfo>& info) {
    {
      MutexLock lock(mutex_);
      next_.reset();
      if (info.ok()) *next_.emplace().mutable_document() = Encode(*info);
      ended_ = info.status();
    }
    Go();
  }

  // Writes what there is to be written, or ends the call. Whoever ends it is the last to touch it.
  void Go() {
    std::optional<absl::Status> ended;
    {
      MutexLock lock(mutex_);
      if (writing_) return;
      if (next_.has_value() && !gone_) {
        sent_ = *std::exchange(next_, std::nullopt);
      } else if (ended_.has_value()) {
        ended = ended_;
      } else {
        return;
      }
      writing_ = true;  // after the end, for good
    }
    ended.has_value() ? Finish(call_.End(*std::move(ended))) : StartWrite(&sent_);
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      gone_ = !ok;
    }
    if (!ok) cancellation_->Cancel();
    Go();
  }
  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override { delete this; }

  Call call_;
  engine::Engine& engine_;
  const std::string id_;
  // Begin may still be at it when the call has ended.
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  Mutex mutex_;
  std::optional<v1::RefreshDocumentResponse> next_ ABSL_GUARDED_BY(mutex_);  // not sent yet
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;  // the client
  v1::RefreshDocumentResponse sent_;           // on its way
};

}  // namespace

grpc::ServerWriteReactor<v1::RefreshDocumentResponse>* StartRefreshCall(
    Runtime& runtime, engine::Engine& engine, Context* context,
    const v1::RefreshDocumentRequest& request) {
  return new RefreshCall(runtime, engine, context, request);
}

}  // namespace recollect::service
