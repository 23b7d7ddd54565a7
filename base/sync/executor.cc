#include "base/sync/executor.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/io/log.h"

namespace recollect {

Executor::Executor(int threads, size_t most_queued) : most_queued_(most_queued) {
  for (int i = 0; i < std::max(threads, 1); ++i) threads_.emplace_back([this] { Run(); });
}

bool Executor::Post(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    if (stopping_ || work_.size() >= most_queued_) return false;
    work_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void Executor::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Executor::Run() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && work_.empty()) wake_.wait(lock);
    if (work_.empty()) return;
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    try {
      work();
    } catch (const std::bad_alloc&) {
      // Whoever waits for it was to be told inside: OrExhausted in base/memory.h.
      LogError("work that was posted ran out of memory");
    }
    work = nullptr;  // what it captured goes before the lock is taken again
    lock.lock();
  }
}

}  // namespace recollect
