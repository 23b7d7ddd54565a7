#include "kernels/copy/copy_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/copy/copy_kernel.h"

namespace recollect::kernels {
namespace {

// Twice the warps that 132 multiprocessors hold: few long copies are cut into as many slices.
constexpr int64_t kWarpsToFill = 16384;
// Beside many short copies a long one is cut as well, so that no warp goes on for long after the
// others: 32 times what it has in flight.
constexpr int64_t kMaxWarpBytes = 32 * cuda::kCopyWarpBytes;
constexpr int64_t kMaxSlices = int64_t{1} << 34;  // 2^31 thread blocks

}  // namespace

absl::StatusOr<CopyPlan> PlanCopy(int64_t count, int64_t most_bytes) {
  if (count < 0 || most_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " copies of up to ", most_bytes, " bytes"));
  }
  if (count == 0 || most_bytes == 0) return CopyPlan{count, 0};
  const auto pieces_of = [&](int64_t bytes) { return (most_bytes - 1) / bytes + 1; };
  const int64_t slices = std::min(pieces_of(cuda::kCopyWarpBytes),
                                  std::max(kWarpsToFill / count, pieces_of(kMaxWarpBytes)));
  if (slices >= kMaxSlices / count) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " copies of up to ", most_bytes, " bytes: too many for one launch"));
  }
  return CopyPlan{count, slices};
}

absl::Status CheckCopies(std::span<const DeviceCopy> copies, int64_t most_bytes) {
  for (size_t i = 0; i < copies.size(); ++i) {
    const DeviceCopy& copy = copies[i];
    const auto from = reinterpret_cast<uintptr_t>(copy.from);
    const auto to = reinterpret_cast<uintptr_t>(copy.to);
    const auto bytes = static_cast<uintptr_t>(copy.bytes);
    const char* wrong = nullptr;
    if (copy.bytes < 0 || copy.bytes > most_bytes) {
      wrong = "not within the longest";
    } else if ((from | to | bytes) % 4 != 0) {
      wrong = "no multiples of 4";
    } else if (from < to + bytes && to < from + bytes) {
      wrong = "both places overlap";
    } else {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("copy ", i, " of ", copy.bytes, " bytes from ",
                                                   from, " to ", to, ", the longest of ",
                                                   most_bytes, ": ", wrong));
  }
  return absl::OkStatus();
}

}  // namespace recollect::kernels
