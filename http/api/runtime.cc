#include "http/api/runtime.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace recollect::http {

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
