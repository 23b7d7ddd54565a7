#include "store/rados/leases.h"

#include <algorithm>
#include <chrono>

#include "base/io/log.h"
#include "base/status.h"

namespace recollect::store::rados {

Leases::Leases(Pool& pool, const RadosOptions& options, std::function<void()> tick)
    : pool_(pool),
      period_ms_(std::max<int64_t>(options.lease_ms / 3, 1)),
      renews_(options.renews),
      tick_(std::move(tick)),
      thread_([this] { Loop(); }) {}

Leases::~Leases() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  MutexLock lock(mutex_);
  for (const auto& [key, shared] : held_) {
    if (renews_) pool_.DropLock(key.first, key.second);
  }
}

absl::Status Leases::Take(const std::string& object, const std::string& lock, bool shared) {
  RETURN_IF_ERROR(pool_.TakeLock(object, lock, shared));
  MutexLock guard(mutex_);
  held_[{object, lock}] = shared;
  return absl::OkStatus();
}

void Leases::Drop(const std::string& object, const std::string& lock) {
  {
    MutexLock guard(mutex_);
    if (held_.erase({object, lock}) == 0) return;
  }
  pool_.DropLock(object, lock);
}

bool Leases::Holds(const std::string& object, const std::string& lock) {
  MutexLock guard(mutex_);
  return held_.contains({object, lock});
}

void Leases::Loop() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait_for(lock, std::chrono::milliseconds(period_ms_),
                      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
    if (stopping_) return;
    if (!renews_) continue;
    const std::map<Key, bool> held = held_;
    lock.unlock();
    for (const auto& [key, shared] : held) {
      const absl::Status renewed = pool_.TakeLock(key.first, key.second, shared, /*renew=*/true);
      // What was not answered is tried again.
      if (!absl::IsNotFound(renewed) && !absl::IsAborted(renewed)) continue;
      MutexLock again(mutex_);
      if (held_.erase(key) == 0) continue;  // dropped meanwhile
      LogWarning("the lock {} of {} was lost: it was not renewed in time", key.second, key.first);
    }
    tick_();
    lock.lock();
  }
}

}  // namespace recollect::store::rados
