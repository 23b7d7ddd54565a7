// Runs on the host what the *_cuda.h functions launch: the same operations, with an order of blocks
// and threads in place of the stream, in the same thread blocks, on host memory (NAME_on_host.cc).
// Calls return when the work is done, and check what nobody could check on a device: segments,
// groups, ranges, copies.
//   OnHost(HostOrder::kPhases, RopeOp{sizes, pairs, cosines, sines, x});
#ifndef RECOLLECT_TESTS_KERNELS_DEVICE_HOST_LAUNCHES_H_
#define RECOLLECT_TESTS_KERNELS_DEVICE_HOST_LAUNCHES_H_

#include "absl/status/status.h"
#include "kernels/device/operation.h"
#include "tests/kernels/device/host_block.h"

namespace recollect::kernels {

#define RECOLLECT_ON_HOST(Op) absl::Status OnHost(HostOrder order, const Op& op);
RECOLLECT_OPERATIONS(RECOLLECT_ON_HOST)
#undef RECOLLECT_ON_HOST

}  // namespace recollect::kernels

#endif  // RECOLLECT_TESTS_KERNELS_DEVICE_HOST_LAUNCHES_H_
