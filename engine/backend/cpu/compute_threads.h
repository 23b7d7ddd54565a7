// The threads on which the CPU runs layers and searches landmark keys.
#ifndef RECOLLECT_ENGINE_BACKEND_CPU_COMPUTE_THREADS_H_
#define RECOLLECT_ENGINE_BACKEND_CPU_COMPUTE_THREADS_H_

#include <algorithm>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/op_context.h"

namespace recollect::engine {

struct ComputeThreads {
  // 0: one for each core.
  explicit ComputeThreads(int threads)
      : pool(threads > 0 ? threads
                         : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))),
        contexts(static_cast<size_t>(pool.threads())) {}

  kernels::OpContext& context(int worker) { return contexts[static_cast<size_t>(worker)]; }

  ThreadPool pool;
  std::vector<kernels::OpContext> contexts;  // by worker of the pool
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_BACKEND_CPU_COMPUTE_THREADS_H_
