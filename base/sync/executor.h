// Threads that run posted closures in the order they were posted: blocking reads, commits,
// tokenisation, calls of the service. The model's computation does not run here but on the
// scheduler's pool.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "base/sync/mutex.h"

namespace recollect {

// Thread-safe. With one thread, closures run one after the other in order.
class Executor {
 public:
  explicit Executor(int threads, size_t most_queued = std::numeric_limits<size_t>::max());
  ~Executor() { Stop(); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Returns false and drops `work` if `most_queued` closures are waiting for a thread, or after
  // Stop.
  bool Post(std::function<void()> work);

  // Runs all closures that were posted, then joins the threads. Must not be called from one of
  // them.
  void Stop();

 private:
  void Run();

  const size_t most_queued_;
  Mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace recollect
