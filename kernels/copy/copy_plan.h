// Copies within a device, many in one launch: rows of many sequences' caches into a batch, the
// parts of a document's memory into one place. Thousands of short copies take a warp each; a few
// long ones use the whole device.
//   CheckCopies(copies, most_bytes);  // host copies, before the upload
//   device.Run(CopyOp{copies_on_device, count, most_bytes});
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recollect::kernels {

// Copies `bytes` bytes from `from` to `to`, which do not overlap. All three are multiples of 4.
struct DeviceCopy {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
};

// Every copy has the same number of slices, one warp each; slices that a short copy does not need
// end at once.
struct CopyPlan {
  int64_t count = 0;
  int64_t slices = 0;
};

// Plans `count` copies, the longest of `most_bytes` bytes. INVALID_ARGUMENT when a number is
// negative or there are more slices than one launch can take (2^34).
absl::StatusOr<CopyPlan> PlanCopy(int64_t count, int64_t most_bytes);

// Checks host copies before they are uploaded, since the device checks nothing: addresses and
// lengths, and that no copy is longer than `most_bytes`: a longer one would be complete, but slow.
// INVALID_ARGUMENT names the copy.
absl::Status CheckCopies(std::span<const DeviceCopy> copies, int64_t most_bytes);

// copies[count] and what they point to are device memory, borrowed until the work is done; no copy
// writes what another reads or writes. Copies whose addresses and length are multiples of 16 are
// fastest; `most_bytes` determines how all are cut into slices. INVALID_ARGUMENT by PlanCopy.
struct CopyOp {
  const DeviceCopy* copies = nullptr;
  int64_t count = 0;
  int64_t most_bytes = 0;  // the length of the longest copy
  friend bool operator==(const CopyOp&, const CopyOp&) = default;
};

// Zeros in to[bytes], device memory, borrowed until the work is done.
struct ZeroOp {
  void* to = nullptr;
  int64_t bytes = 0;
  friend bool operator==(const ZeroOp&, const ZeroOp&) = default;
};

}  // namespace recollect::kernels
