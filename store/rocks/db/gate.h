// Many use a thing while somebody, now and then, must have it alone.
#pragma once

#include <chrono>
#include <condition_variable>

#include "base/sync/mutex.h"

namespace recollect::store::rocks {

// Not std::shared_mutex: a thread may enter again while somebody waits to be alone, since visitors
// of a scan read. Thread-safe.
class Gate {
 public:
  class Inside {
   public:
    explicit Inside(Gate& gate) : gate_(gate) {
      MutexLock lock(gate_.mutex_);
      while (gate_.closed_) gate_.changed_.wait(lock);
      ++gate_.inside_;
    }
    ~Inside() {
      MutexLock lock(gate_.mutex_);
      if (--gate_.inside_ == 0) gate_.changed_.notify_all();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Gate& gate_;
  };

  // False when there was always somebody inside.
  bool CloseWhenEmpty(std::chrono::milliseconds patience) {
    MutexLock lock(mutex_);
    const auto empty = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return inside_ == 0; };
    if (!changed_.wait_for(lock, patience, empty)) return false;
    closed_ = true;
    return true;
  }
  void Open() {
    MutexLock lock(mutex_);
    closed_ = false;
    changed_.notify_all();
  }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace recollect::store::rocks
