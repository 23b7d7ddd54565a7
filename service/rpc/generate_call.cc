#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/status.h"
#include "base/sync/mutex.h"
#include "grpc/grpc.h"
#include "service/limits.h"
#include "service/rpc/services.h"

namespace recollect::service {
namespace {

// Events come from the engine faster or slower than the client reads. What waits is queued; waiting
// token events merge into one message. The call ends when the engine has ended it and the queue is
// empty; or, when more waits than may, without what waits.
class GenerateCall final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  GenerateCall(Runtime& runtime, engine::Engine& engine, Context* context,
               const v1::GenerateRequest& request);

  void Tokens(const std::vector<int32_t>& tokens, const std::string& text);
  void Push(v1::GenerateResponse message);
  // The engine calls nothing afterwards; the object may be gone when this returns.
  void End(absl::Status status);

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override { delete this; }

  // Starts the next write or ends the call, if it is time. Unlocks the caller's lock first: gRPC
  // may run the next reaction at once. The analysis cannot follow that.
  void Advance(MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void Overflow(MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  Call call_;
  Context* const context_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  Mutex mutex_;
  // The first one is being written while writing_.
  std::deque<v1::GenerateResponse> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of the queue, roughly
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool overflow_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

std::string TooSlow() {
  return absl::StrCat("the client reads too slowly: more than ", kMaxUnsentBytes,
                      " bytes wait for it");
}

// What the engine holds; it may outlive the reactor, which is not touched after OnDone or OnError.
class Events final : public engine::GenerateEvents {
 public:
  explicit Events(GenerateCall* call) : call_(call) {}
  void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) override {
    call_->Tokens(tokens, text);
  }
  void OnRetrieval(const engine::Retrieval& retrieval) override {
    v1::GenerateResponse message;
    *message.mutable_retrieval() = Encode(retrieval);
    call_->Push(std::move(message));
  }
  void OnCandidates(const engine::JudgedCandidates& candidates) override {
    v1::GenerateResponse message;
    *message.mutable_candidates() = Encode(candidates);
    call_->Push(std::move(message));
  }
  void OnLogprobs(const engine::ChosenLogprob& token) override {
    v1::GenerateResponse message;
    *message.mutable_logprobs() = Encode(token);
    call_->Push(std::move(message));
  }
  void OnSaved(const absl::StatusOr<store::DocumentInfo>& document) override {
    saved_ = Encode(document);
  }
  void OnDone(engine::FinishReason reason, const engine::Usage& usage) override {
    v1::GenerateResponse message = EncodeDone(reason, usage);
    if (saved_.has_value()) *message.mutable_done()->mutable_saved() = *std::move(saved_);
    call_->Push(std::move(message));
    call_->End(absl::OkStatus());
  }
  void OnError(const absl::Status& status) override { call_->End(status); }

 private:
  GenerateCall* const call_;
  std::optional<v1::Saved> saved_;  // with save_as
};

GenerateCall::GenerateCall(Runtime& runtime, engine::Engine& engine, Context* context,
                           const v1::GenerateRequest& request)
    : call_(runtime, kMethod<v1::GenerateRequest>.name, context), context_(context) {
  auto decoded = OrExhausted("a call", [&]() -> absl::StatusOr<engine::GenerateRequest> {
    RETURN_IF_ERROR(call_.AdmitFor(request));
    return Decode(request);
  });
  if (!decoded.ok()) {
    End(decoded.status());
    return;
  }
  decoded->deadline = call_.deadline();
  decoded->account = call_.caller().account();
  if (decoded->save_as.has_value()) decoded->save_as->peer = call_.peer_address();
  const std::shared_ptr<Cancellation> cancellation = cancellation_;
  cancellation->Set(engine.Generate(*std::move(decoded), std::make_shared<Events>(this)));
}

void GenerateCall::Tokens(const std::vector<int32_t>& tokens, const std::string& text) {
  MutexLock lock(mutex_);
  if (overflow_) return;
  // The message being written belongs to gRPC.
  const bool mergeable = queue_.size() > (writing_ ? 1 : 0) && queue_.back().has_tokens();
  if (!mergeable) queue_.emplace_back();
  v1::GeneratedTokens& message = *queue_.back().mutable_tokens();
  message.mutable_ids()->Add(tokens.begin(), tokens.end());
  message.mutable_text()->append(text);
  unsent_bytes_ += static_cast<int64_t>(text.size() + tokens.size() * sizeof(int32_t));
  Advance(lock);
}

void GenerateCall::Push(v1::GenerateResponse message) {
  MutexLock lock(mutex_);
  if (overflow_) return;
  unsent_bytes_ += static_cast<int64_t>(message.ByteSizeLong());
  queue_.push_back(std::move(message));
  Advance(lock);
}

void GenerateCall::End(absl::Status status) {
  MutexLock lock(mutex_);
  end_ = std::move(status);
  Advance(lock);
}

void GenerateCall::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  writing_ = false;
  if (ok) {
    unsent_bytes_ -= static_cast<int64_t>(queue_.front().ByteSizeLong());
    queue_.pop_front();
  } else {  // nobody reads any more
    unsent_bytes_ = 0;
    queue_.clear();
    cancellation_->Cancel();
  }
  if (queue_.empty()) unsent_bytes_ = 0;
  Advance(lock);
}

void GenerateCall::Advance(MutexLock& lock) {
  if (unsent_bytes_ > kMaxUnsentBytes && !overflow_) return Overflow(lock);
  if (writing_) return;
  if (!queue_.empty()) {
    writing_ = true;
    const v1::GenerateResponse* next = &queue_.front();  // stays: a deque grows without moving
    lock.unlock();
    StartWrite(next);
  } else if (end_.has_value()) {
    absl::Status status = *std::exchange(end_, std::nullopt);
    if (overflow_) status = absl::ResourceExhaustedError(TooSlow());
    lock.unlock();
    Finish(call_.End(std::move(status)));
  }
}

// Inside an event of the engine, which has not ended the call yet: this object stays.
void GenerateCall::Overflow(MutexLock& lock) {
  overflow_ = true;
  queue_.resize(writing_ ? 1 : 0);
  lock.unlock();
  cancellation_->Cancel();
  // A write to a client that never reads again ends only with the call. TryCancel would not tell
  // the client why.
  grpc_call_cancel_with_status(context_->c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED,
                               TooSlow().c_str(), nullptr);
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerateCall(
    Runtime& runtime, engine::Engine& engine, Context* context,
    const v1::GenerateRequest& request) {
  return new GenerateCall(runtime, engine, context, request);
}

}  // namespace recollect::service
