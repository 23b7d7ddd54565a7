#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/engine_impl.h"
#include "engine/step/prepare.h"

namespace recollect::engine {

// Cancels a request, also one that is still being prepared.
class EngineImpl::Handle final : public RequestHandle {
 public:
  void Cancel() override {
    std::shared_ptr<Request> request;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      cancelled_ = true;
      request = request_.lock();
    }
    if (request != nullptr) request->Cancel();
  }

  void Attach(const std::shared_ptr<Request>& request) {
    std::lock_guard<std::mutex> lock(mutex_);
    request_ = request;
    if (cancelled_) request->Cancel();
  }

  bool cancelled() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return cancelled_;
  }

 private:
  mutable std::mutex mutex_;
  bool cancelled_ = false;
  std::weak_ptr<Request> request_;
};

absl::Status EngineImpl::TakeSlot() {
  std::lock_guard<std::mutex> lock(idle_mutex_);
  if (draining_) return absl::UnavailableError("the engine is shutting down");
  const int64_t most = options_.max_queued + options_.max_batch;
  if (outstanding_ >= most) {
    return absl::ResourceExhaustedError(
        absl::StrCat(outstanding_.load(), " requests are running or waiting, at most ",
                     options_.max_batch, " run and ", options_.max_queued, " wait"));
  }
  ++outstanding_;
  return absl::OkStatus();
}

void EngineImpl::GiveSlotBack() {
  std::lock_guard<std::mutex> lock(idle_mutex_);
  --outstanding_;
  idle_.notify_all();
}

void EngineImpl::Release(const std::optional<SessionId>& id, std::shared_ptr<Session> session) {
  FreeSession(id.has_value() ? sessions_.Release(*id) : std::move(session));
}

std::shared_ptr<RequestHandle> EngineImpl::Submit(Submission submission) {
  const MemoryScope scope(MemoryScope::kTake);  // a slot that is taken is given back
  auto handle = std::make_shared<Handle>();
  absl::Status status = scheduler_.CheckRoom();
  if (status.ok()) status = TakeSlot();
  if (!status.ok()) {
    // Never from inside the caller's call, where it may hold locks; after Shutdown there is no
    // other thread left. Not behind the requests that there were too many of, and without its own.
    const auto refuse = [refuse = std::move(submission.refuse), status] { refuse(status); };
    if (!fetchers_.Post(refuse)) refuse();
    return handle;
  }
  auto shared = std::make_shared<Submission>(std::move(submission));
  // The session is taken at once, so that requests for it are refused or served in the order of the
  // calls.
  std::shared_ptr<Session> session;
  if (shared->session_id.has_value()) {
    absl::StatusOr<std::shared_ptr<Session>> acquired =
        sessions_.Acquire(*shared->session_id, [weak = std::weak_ptr<Handle>(handle)] {
          if (const auto running = weak.lock()) running->Cancel();
        });
    status = acquired.status();
    if (status.ok()) session = *std::move(acquired);
  }
  RunInBackground([this, shared, session, handle, status] {
    if (status.ok()) return Prepare(*shared, session, handle);
    shared->refuse(status);
    GiveSlotBack();
  });
  return handle;
}

void EngineImpl::Prepare(const Submission& submission, std::shared_ptr<Session> session,
                         const std::shared_ptr<Handle>& handle) {
  const std::vector<std::string> mounts =
      session != nullptr ? session->info().mounts : submission.session_options.mounts;
  const bool continues = !model_->config().landmarks() && !mounts.empty();
  std::shared_ptr<Request> request;
  const absl::Status status = OrExhausted("a request", [&]() -> absl::Status {
    // Mounting a prefix reads all of it: not for a caller who has gone.
    RETURN_IF_ERROR(DueStatus(handle->cancelled(), submission.deadline));
    if (failing_) return absl::UnavailableError("the engine is shutting down");
    ASSIGN_OR_RETURN(request, submission.make(continues));
    if (session != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(session, MakeSession(submission.session_options));
    return absl::OkStatus();
  });
  if (!status.ok()) {
    if (session != nullptr) Release(submission.session_id, std::move(session));
    submission.refuse(status);
    GiveSlotBack();
    return;
  }
  request->session = session;
  request->wake = scheduler_.waker();
  request->released = [this, id = submission.session_id, session] { Release(id, session); };
  request->ended = [this] { GiveSlotBack(); };
  handle->Attach(request);
  // The request keeps its handle, through which closing the session cancels it.
  request->keep_alive = handle;
  scheduler_.Submit(request);
}

std::shared_ptr<RequestHandle> EngineImpl::Generate(GenerateRequest request,
                                                    std::shared_ptr<GenerateEvents> events) {
  auto shared = std::make_shared<GenerateRequest>(std::move(request));
  const auto make = [this, shared, events, arrived = std::chrono::steady_clock::now()](
                        bool continues) -> absl::StatusOr<std::shared_ptr<Request>> {
    RETURN_IF_ERROR(ValidateGenerate(*shared));
    ASSIGN_OR_RETURN(std::vector<int32_t> tokens, PromptTokens(*model_, shared->prompt, continues));
    return MakeGenerate(*model_, std::move(*shared), std::move(tokens), events, counters_, arrived);
  };
  return Submit({shared->session, shared->session_options, shared->deadline, make,
                 [events](const absl::Status& status) { events->OnError(status); }});
}

std::shared_ptr<RequestHandle> EngineImpl::Score(
    ScoreRequest request, std::function<void(absl::StatusOr<ScoreResult>)> done) {
  auto shared = std::make_shared<ScoreRequest>(std::move(request));
  const auto make = [this, shared,
                     done](bool continues) -> absl::StatusOr<std::shared_ptr<Request>> {
    ASSIGN_OR_RETURN(std::vector<int32_t> tokens, PromptTokens(*model_, shared->prompt, continues));
    RETURN_IF_ERROR(ValidateScore(*shared, static_cast<int64_t>(tokens.size())));
    int64_t text_bytes = 0;
    if (model_->tokenizer() != nullptr) {
      for (const int32_t id : tokens) {
        text_bytes += static_cast<int64_t>(model_->tokenizer()->TokenBytes(id).size());
      }
    }
    return MakeScore(*model_, std::move(*shared), std::move(tokens), text_bytes, done, counters_);
  };
  return Submit({std::nullopt, shared->session_options, shared->deadline, make, done});
}

std::shared_ptr<RequestHandle> EngineImpl::Retrieve(
    RetrieveRequest request, std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done) {
  auto shared = std::make_shared<RetrieveRequest>(std::move(request));
  const auto make = [this, shared, done](bool) -> absl::StatusOr<std::shared_ptr<Request>> {
    RETURN_IF_ERROR(RequireLandmarks(*model_, "retrieve"));
    ASSIGN_OR_RETURN(std::vector<int32_t> tokens, PromptTokens(*model_, shared->query));
    RETURN_IF_ERROR(ValidateRetrieve(*shared, static_cast<int64_t>(tokens.size())));
    return MakeRetrieve(std::move(*shared), std::move(tokens), done, counters_);
  };
  return Submit({std::nullopt, shared->session_options, shared->deadline, make, done});
}

}  // namespace recollect::engine
