#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/sync/mutex.h"
#include "engine/engine_impl.h"
#include "engine/saving_events.h"
#include "engine/session/mount_names.h"
#include "engine/step/limits.h"
#include "engine/step/prepare.h"

namespace recollect::engine {

absl::StatusOr<Request::QueueSlot> EngineImpl::TakeQueueSlot() {
  MutexLock lock(idle_mutex_);
  if (draining_) return ShuttingDown();
  const int64_t most = options_.max_queued + options_.max_batch;
  if (outstanding_ >= most) {
    return absl::ResourceExhaustedError(
        absl::StrCat(outstanding_.load(), " requests are running or waiting, at most ",
                     options_.max_batch, " run and ", options_.max_queued, " wait"));
  }
  ++outstanding_;
  return Request::QueueSlot(this, [this](void*) {
    MutexLock again(idle_mutex_);
    --outstanding_;
    idle_.notify_all();
  });
}

std::shared_ptr<RequestHandle> EngineImpl::Submit(const absl::Status& checked,
                                                  std::optional<SessionId> session,
                                                  const std::shared_ptr<Request>& request,
                                                  std::function<absl::Status()> last) {
  const MemoryScope scope(MemoryScope::kTake);  // the caller hears of the end
  // Also while the request is still being prepared.
  auto handle =
      std::make_shared<CancelBy>([weak = std::weak_ptr(request), wake = scheduler_.waker()] {
        if (const std::shared_ptr<Request> running = weak.lock()) running->Cancel();
        wake();
      });
  const auto admit = [&]() -> absl::Status {
    RETURN_IF_ERROR(checked);
    RETURN_IF_ERROR(scheduler_.CheckRoom());
    if (request->account != nullptr) {
      RETURN_IF_ERROR(request->account->CheckTokens());
      if (!session.has_value()) {
        ASSIGN_OR_RETURN(request->counted_session, request->account->TakeSession());
      }
    }
    ASSIGN_OR_RETURN(request->queue_slot, TakeQueueSlot());
    if (!session.has_value()) return absl::OkStatus();
    // At once, so that requests for it are refused or served in the order of the calls.
    ASSIGN_OR_RETURN(request->session, sessions_.Acquire(*session, [handle] { handle->Cancel(); }));
    return absl::OkStatus();
  };
  if (const absl::Status status = admit(); !status.ok()) {
    // Never from inside the caller's call, where it may hold locks; after Shutdown there is no
    // other thread left. Not behind the requests that there were too many of.
    const auto refuse = [request, status] { request->End(status); };
    if (!fetchers_.Post(refuse)) refuse();
    return handle;
  }
  RunInBackground([this, request, last = std::move(last)] {
    absl::StatusOr<bool> answered = Prepare(*request);
    if (answered.ok() && last != nullptr) {
      if (const absl::Status status = OrExhausted("a request", last); !status.ok())
        answered = status;
    }
    answered.ok() && !*answered ? scheduler_.Submit(request) : request->End(answered.status());
  });
  return handle;
}

absl::StatusOr<PromptSource> EngineImpl::SourceOf(const Request& request) {
  PromptSource source{.store = *store_, .threads = threads_.get()};
  const DocumentKind documents = model_->config().documents();
  if (request.session != nullptr) {
    source.positions = request.session->positions();
    source.text_tokens = request.session->text_tokens();
    if (MountsText(model_->config(), request.session->mount_as())) {
      source.text_mounts = request.session->mounts();
    }
    source.continues = documents == DocumentKind::kPrefix && !request.session->mounts().empty();
    return source;
  }
  const SessionOptions& options = request.session_options;
  source.text_tokens = options.text_tokens;
  source.continues = documents == DocumentKind::kPrefix && !options.mounts.empty();
  RETURN_IF_ERROR(ValidateSession(*model_, options));
  if (MountsText(model_->config(), options.mount_as)) {
    ASSIGN_OR_RETURN(source.text_mounts, mounts_->Mount(options.mounts, NeedOf(options)));
  }
  return source;
}

absl::StatusOr<bool> EngineImpl::Prepare(Request& request) {
  return OrExhausted("a request", [&]() -> absl::StatusOr<bool> {
    // Mounting a prefix reads all of it: not for a caller who has gone.
    RETURN_IF_ERROR(DueStatus(request.cancelled(), request.deadline));
    if (failing_) return ShuttingDown();
    std::vector<std::string>& mounts = request.session_options.mounts;
    const SessionOptions asked = request.session_options;
    ASSIGN_OR_RETURN(mounts, ExpandMounts(*store_, asked));
    std::optional<PromptSource> source;
    RETURN_IF_ERROR(MountThoseThere(*store_, asked, mounts, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(PromptSource made, SourceOf(request));
      source.emplace(std::move(made));
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(request.Prepare(*source));
    if (request.session != nullptr) return false;
    RETURN_IF_ERROR(MountThoseThere(*store_, asked, mounts, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(request.session, BorrowSession(request.session_options, request.beginning(),
                                                      request.account));
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(DueStatus(request.cancelled(), request.deadline));
    return request.AnswerAtOnce();
  });
}

std::shared_ptr<RequestHandle> EngineImpl::Generate(GenerateRequest request,
                                                    std::shared_ptr<GenerateEvents> events) {
  absl::Status checked = CheckRequest(request);
  const std::optional<SessionId> session = request.session;
  // What is saved begins with the text of these ids.
  if (checked.ok() && request.save_as.has_value())
    checked = Annotate(CheckTokenIds(model_->config(), request.prompt.tokens), "prompt");
  if (!checked.ok() || !request.save_as.has_value()) {
    return Submit(checked, session,
                  MakeGenerate(*model_, std::move(request), std::move(events), counters_));
  }
  const auto saving = std::make_shared<SavingEvents>(*this, request, model_->tokenizer(),
                                                     std::move(events), BeginSave());
  auto running =
      Submit(checked, session, MakeGenerate(*model_, std::move(request), saving, counters_),
             [saving] { return saving->Begin(); });
  // It may hold who holds this.
  return std::make_shared<CancelBy>([running, weak = std::weak_ptr(saving)] {
    running->Cancel();
    if (const std::shared_ptr<SavingEvents> writing = weak.lock()) writing->Cancel();
  });
}

std::shared_ptr<RequestHandle> EngineImpl::Score(
    ScoreRequest request, std::function<void(absl::StatusOr<ScoreResult>)> done) {
  const absl::Status checked = CheckRequest(request);
  const std::optional<SessionId> session = request.session;
  return Submit(checked, session,
                MakeScore(*model_, std::move(request), std::move(done), counters_));
}

std::shared_ptr<RequestHandle> EngineImpl::Retrieve(
    RetrieveRequest request, std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done) {
  const absl::Status checked = CheckRequest(request);
  return Submit(checked, std::nullopt,
                MakeRetrieve(*model_, std::move(request), std::move(done), counters_));
}

std::shared_ptr<RequestHandle> EngineImpl::Embed(
    EmbedRequest request, std::function<void(absl::StatusOr<Embedding>)> done) {
  const absl::Status checked = CheckRequest(request);
  return Submit(checked, std::nullopt,
                MakeEmbed(*model_, std::move(request), std::move(done), counters_));
}

}  // namespace recollect::engine
