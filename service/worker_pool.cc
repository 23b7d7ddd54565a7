#include "service/worker_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace recollect::service {

WorkerPool::WorkerPool(int threads, int64_t max_queued) : max_queued_(max_queued) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status WorkerPool::Post(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (static_cast<int64_t>(queue_.size()) >= max_queued_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("calls waiting for a worker: ", queue_.size(), ", limit ", max_queued_));
    }
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
  return absl::OkStatus();
}

void WorkerPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it captured may run destructors: not under the lock
    lock.lock();
  }
}

}  // namespace recollect::service
