// Keeps the locks of this process on head objects from expiring, and calls back at the same pace.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "base/sync/mutex.h"
#include "store/rados/pool.h"

namespace recollect::store::rados {

// Thread-safe. The destructor drops all locks.
class Leases {
 public:
  // `tick` runs on this object's thread after each round of renewals, every third of a lease.
  Leases(Pool& pool, const RadosOptions& options, std::function<void()> tick);
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // ABORTED: somebody else holds it. Taking one that this process holds renews it.
  absl::Status Take(const std::string& object, const std::string& lock, bool shared);
  void Drop(const std::string& object, const std::string& lock);
  // As far as this process knows.
  bool Holds(const std::string& object, const std::string& lock);

 private:
  using Key = std::pair<std::string, std::string>;  // object, lock
  void Loop();

  Pool& pool_;
  const int64_t period_ms_;
  const bool renews_;
  const std::function<void()> tick_;
  Mutex mutex_;
  std::map<Key, bool> held_ ABSL_GUARDED_BY(mutex_);  // whether it is shared
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace recollect::store::rados
