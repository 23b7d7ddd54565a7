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

Cleaner::~Cleaner() {
  {
    MutexLock lock(mutex_);
    stopping_ = canceled_ = true;
  }
  changed_.notify_all();
  executor_.Stop();
}

void Cleaner::Add(Job job) {
  executor_.Post([this, job = std::move(job)] { Run(job); });
}

void Cleaner::Run(const Job& job) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  canceled_ = false;
  lock.unlock();
  const absl::Status status = job(&canceled_);
  lock.lock();
  if (status.ok() || stopping_) return;
  LogWarning("space of a deleted document is not free yet: {}", std::string(status.message()));
  if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) return;
  Add(job);
  changed_.wait_for(lock, kRetryAfter,
                    [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
}

}  // namespace recollect::store::rocks
