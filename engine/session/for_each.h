// Runs a loop on the threads of a pool, or on the caller's where there is no pool.
#ifndef RECOLLECT_ENGINE_SESSION_FOR_EACH_H_
#define RECOLLECT_ENGINE_SESSION_FOR_EACH_H_

#include <cstdint>
#include <functional>

#include "base/sync/thread_pool.h"

namespace recollect::engine {

// body(i) for each i in [0, count), in any order; returns when all have returned.
inline void ForEach(ThreadPool* pool, int64_t count, const std::function<void(int64_t)>& body) {
  if (pool != nullptr && count > 1) {
    pool->ParallelFor(count, [&](int64_t i, int) { body(i); });
  } else {
    for (int64_t i = 0; i < count; ++i) body(i);
  }
}

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_SESSION_FOR_EACH_H_
