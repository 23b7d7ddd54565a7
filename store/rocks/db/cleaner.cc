#include "store/rocks/db/cleaner.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/io/log.h"

namespace recollect::store::rocks {
namespace {

// A compaction that lacks space writes until there is none, so it is not tried often.
constexpr std::chrono::seconds kRetryAfter{30};

}  // namespace

Cleaner::Cleaner() : thread_([this] { Loop(); }) {}

Cleaner::~Cleaner() {
  {
    MutexLock lock(mutex_);
    stopping_ = canceled_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Cleaner::Add(Job job) {
  {
    MutexLock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void Cleaner::Loop() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && jobs_.empty()) changed_.wait(lock);
    if (stopping_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    canceled_ = false;
    lock.unlock();
    const absl::Status status = job(&canceled_);
    lock.lock();
    if (status.ok() || stopping_) continue;
    LogWarning("space of a deleted document is not free yet: {}", std::string(status.message()));
    if (absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) {
      jobs_.push_back(std::move(job));
      changed_.wait_for(lock, kRetryAfter,
                        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
    }
  }
}

}  // namespace recollect::store::rocks
