// What copies on a device are cut into (kernels/copy_cuda.h): host code without CUDA, so that every
// machine tests it.
#ifndef RECOLLECT_KERNELS_COPY_PLAN_H_
#define RECOLLECT_KERNELS_COPY_PLAN_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recollect::kernels {

// `bytes` from one place to another that it does not overlap; all three multiples of 4.
struct DeviceCopy {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
};

// Every copy has as many slices, each for one warp: those that a short copy does not need end at
// once.
struct CopyPlan {
  int64_t count = 0;
  int64_t slices = 0;
};

// For `count` copies, the longest of `most_bytes`. INVALID_ARGUMENT when one of them is negative or
// they are more than one launch takes, 2^34 slices.
absl::StatusOr<CopyPlan> PlanCopy(int64_t count, int64_t most_bytes);

// Checks on the host what is about to be copied to the device, where nothing is checked: addresses
// and lengths, and that no copy is longer than `most_bytes`, which would still be whole, but slow.
// INVALID_ARGUMENT names the copy.
absl::Status CheckCopies(std::span<const DeviceCopy> copies, int64_t most_bytes);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_COPY_PLAN_H_
