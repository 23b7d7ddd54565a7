#include "store/rocks/cleaner.h"

#include <string>
#include <utility>

#include "base/log.h"

namespace recollect::store {

Cleaner::Cleaner() : thread_([this] { Loop(); }) {}

Cleaner::~Cleaner() {
  {
    std::lock_guard lock(mutex_);
    canceled_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Cleaner::Add(Job job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void Cleaner::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return canceled_ || !jobs_.empty(); });
    if (canceled_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const absl::Status status = job(&canceled_);
    if (!status.ok() && !canceled_) {
      LogWarning("space of a deleted document is not free yet: {}", std::string(status.message()));
    }
    lock.lock();
  }
}

}  // namespace recollect::store
