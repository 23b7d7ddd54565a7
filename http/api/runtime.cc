#include "http/api/runtime.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "http/net/errors.h"

namespace recollect::http {
namespace {

class PartSender : public std::enable_shared_from_this<PartSender> {
 public:
  PartSender(Runtime& runtime, std::shared_ptr<Answer> answer, Answer::Head head,
             std::function<absl::StatusOr<std::string>()> next)
      : runtime_(runtime),
        answer_(std::move(answer)),
        head_(std::move(head)),
        next_(std::move(next)) {}

  void Next() {
    const absl::StatusOr<std::string> part = OrExhausted("an answer", next_);
    if (!part.ok()) return begun_ ? answer_->Break() : SendError(*answer_, part.status());
    if (!std::exchange(begun_, true)) answer_->Begin(head_);
    if (part->empty()) return answer_->End();
    answer_->Write(*part);
    answer_->WhenTaken(
        [self = shared_from_this()] { self->runtime_.Continue([self] { self->Next(); }); });
  }

 private:
  Runtime& runtime_;
  const Runtime::Work work_{runtime_};
  const std::shared_ptr<Answer> answer_;
  const Answer::Head head_;
  const std::function<absl::StatusOr<std::string>()> next_;
  bool begun_ = false;
};

}  // namespace

absl::Status Runtime::Start(std::function<void()> work) {
  if (queued_.fetch_add(1) >= kMaxQueued) {
    --queued_;
    return absl::ResourceExhaustedError(
        absl::StrCat("requests waiting for a thread: ", kMaxQueued, ", limit ", kMaxQueued));
  }
  executor_.Post([this, work = std::move(work)] {
    --queued_;
    work();
  });
  return absl::OkStatus();
}

void Runtime::Continue(std::function<void()> work) { executor_.Post(std::move(work)); }

void Runtime::SendParts(const std::shared_ptr<Answer>& answer, Answer::Head head,
                        std::function<absl::StatusOr<std::string>()> next) {
  std::make_shared<PartSender>(*this, answer, std::move(head), std::move(next))->Next();
}

absl::Status Runtime::CheckKey(const Request& request) const {
  return options.authorize == nullptr ? absl::OkStatus() : options.authorize(request).status();
}

void Runtime::Stop() {
  {
    MutexLock lock(mutex_);
    idle_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return work_ == 0; });
  }
  executor_.Stop();
}

void Runtime::CountWork(int change) {
  MutexLock lock(mutex_);
  work_ += change;
  idle_.notify_all();
}

absl::Status Runtime::Ready() const {
  if (traffic.refusing) return absl::UnavailableError("the server is draining");
  return engine.health();
}

}  // namespace recollect::http
