// Launches of operations (kernels/block/launch.h) on the host, for tests without a GPU: the same
// thread blocks, in an order of blocks and threads in place of a stream, on host memory. Calls
// return when the work is done, and check what nobody could check on a device: segments, groups,
// ranges, copies. NAME_on_host.cc has them in one line each:
//   RECOLLECT_ON_HOST(RopeOp)
// for
//   OnHost(HostOrder::kPhases, RopeOp{sizes, pairs, cosines, sines, x});
#pragma once

#include "absl/status/status.h"
#include "kernels/block/launch.h"
#include "kernels/device/operation.h"
#include "tests/kernels/device/host_block.h"

namespace recollect::kernels {

#define RECOLLECT_DECLARE_ON_HOST(Op) absl::Status OnHost(HostOrder order, const Op& op);
RECOLLECT_OPERATIONS(RECOLLECT_DECLARE_ON_HOST)
#undef RECOLLECT_DECLARE_ON_HOST

class HostLauncher {
 public:
  explicit HostLauncher(HostOrder order) : order_(order) {}

  template <typename Kind, typename Op>
  absl::Status operator()(Kind, absl::string_view, const cuda::BlockGrid& grid,
                          const Op& op) const {
    const int threads = grid.threads > 0 ? grid.threads : Kind::kThreads;
    RunBlocks<typename Kind::Shared>(
        order_, grid.x * grid.y * grid.z, threads, [&](HostBlock& block, auto& shared, int64_t i) {
          Kind::Run(block, shared, op,
                    cuda::BlockIndex{i % grid.x, static_cast<int>(i / grid.x % grid.y),
                                     static_cast<int>(i / grid.x / grid.y)});
        });
    return absl::OkStatus();
  }
  template <typename Check>
  absl::Status CheckArrays(const Check& check) const {
    return check();
  }
  template <typename Kind, typename Op>
  absl::StatusOr<bool> Fits(Kind, const Op&) const {
    return true;
  }

 private:
  const HostOrder order_;
};

}  // namespace recollect::kernels

#define RECOLLECT_ON_HOST(Op)                          \
  namespace recollect::kernels {                       \
  absl::Status OnHost(HostOrder order, const Op& op) { \
    return cuda::LaunchOp(HostLauncher(order), op);    \
  }                                                    \
  }
