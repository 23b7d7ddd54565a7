// The threads on which the CPU runs layers and searches landmark keys.
#pragma once

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/sync/thread_pool.h"
#include "kernels/cpu/op_context.h"
#include "kernels/cpu/op_team.h"

namespace recollect::engine {

struct ComputeThreads {
  // 0: one for each core.
  explicit ComputeThreads(int threads)
      : pool(threads > 0 ? threads
                         : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))),
        contexts(static_cast<size_t>(pool.threads())) {}

  // Belongs to the worker of the pool that asks: others may be used by their threads.
  kernels::OpContext& context(int worker) { return contexts[static_cast<size_t>(worker)]; }

  // Runs body(worker) on this thread or on one of the pool.
  template <typename Body>
  void RunAlone(const Body& body) {
    pool.ParallelFor(1, [&](int64_t, int worker) { body(worker); });
  }

  // Runs lead(worker) on one thread, whose ops the others share as far as they have nothing else to
  // do (kernels/cpu/op_team.h). They wait for the next op without sleeping.
  template <typename Lead>
  void LeadTeam(const Lead& lead) {
    if (pool.threads() == 1) return RunAlone(lead);
    kernels::OpTeam team;
    pool.Gather([&](int64_t i, int worker) {
      kernels::OpContext& ctx = context(worker);
      if (i > 0) return team.Serve(ctx);
      ctx.set_team(&team);
      const absl::Cleanup end = [&] {
        ctx.set_team(nullptr);
        team.Dismiss();
      };
      lead(worker);
    });
  }

  ThreadPool pool;
  std::vector<kernels::OpContext> contexts;  // by worker of the pool
};

}  // namespace recollect::engine
