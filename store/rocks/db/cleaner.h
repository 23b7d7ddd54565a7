// Reclaims the space of freed owners, on a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>

#include "absl/status/status.h"
#include "base/sync/executor.h"
#include "base/sync/mutex.h"

namespace recollect::store::rocks {

// Runs jobs one after another, in the order given. Thread-safe. The destructor tells the running
// job to stop, drops the others (they are found again when the store is next opened) and joins the
// thread.
class Cleaner {
 public:
  // A job checks *canceled regularly; others than the cleaner may set it, too. A failed job is
  // logged, never fatal. UNAVAILABLE and RESOURCE_EXHAUSTED, errors of the disk, are tried again.
  using Job = std::function<absl::Status(std::atomic<bool>* canceled)>;

  Cleaner() = default;
  ~Cleaner();
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

  void Add(Job job);

 private:
  void Run(const Job& job);

  std::atomic<bool> canceled_{false};  // of the running job
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::condition_variable changed_;
  Executor executor_{1};  // last: its thread uses all of the above
};

}  // namespace recollect::store::rocks
