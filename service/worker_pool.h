// A few threads for engine calls that may wait for the disk, so that gRPC's own threads never do.
#ifndef RECOLLECT_SERVICE_WORKER_POOL_H_
#define RECOLLECT_SERVICE_WORKER_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace recollect::service {

// Thread-safe. Destruction runs what is queued and joins.
class WorkerPool {
 public:
  WorkerPool(int threads, int64_t max_queued);
  ~WorkerPool();

  // Runs `work` soon, or returns RESOURCE_EXHAUSTED and drops it.
  absl::Status Post(std::function<void()> work);

 private:
  void Run();

  const int64_t max_queued_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_WORKER_POOL_H_
