// std::mutex, std::shared_mutex and their locks with what clang's thread-safety analysis reads: it
// proves that what is ABSL_GUARDED_BY a mutex is touched only under it. Why not absl::Mutex:
// docs/decisions/0024-annotated-locks.md. Conditions are std::condition_variable, waited for in a
// loop, since the analysis does not look into predicates.
//   MutexLock lock(mutex_);
//   while (work_.empty()) wake_.wait(lock);
#pragma once

#include <mutex>
#include <shared_mutex>

#include "absl/base/thread_annotations.h"

namespace recollect {

class ABSL_LOCKABLE Mutex : public std::mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { std::mutex::lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { std::mutex::unlock(); }
};
class ABSL_LOCKABLE SharedMutex : public std::shared_mutex {};

class ABSL_SCOPED_LOCKABLE MutexLock : public std::unique_lock<std::mutex> {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : unique_lock(mutex) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { unique_lock::lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { unique_lock::unlock(); }
};

class ABSL_SCOPED_LOCKABLE WriterLock : public std::unique_lock<std::shared_mutex> {
 public:
  explicit WriterLock(SharedMutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : unique_lock(mutex) {}
  ~WriterLock() ABSL_UNLOCK_FUNCTION() {}
  void unlock() ABSL_UNLOCK_FUNCTION() { unique_lock::unlock(); }
};

class ABSL_SCOPED_LOCKABLE ReaderLock : public std::shared_lock<std::shared_mutex> {
 public:
  explicit ReaderLock(SharedMutex& mutex) ABSL_SHARED_LOCK_FUNCTION(mutex) : shared_lock(mutex) {}
  ~ReaderLock() ABSL_UNLOCK_FUNCTION() {}
};

}  // namespace recollect
