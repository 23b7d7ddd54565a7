// A pointer's mix (pointer_mix.h) of every row of logits on a device.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/block/check_sizes.h"
#include "kernels/pointer_mix/pointer_mix.h"

namespace recollect::kernels {

// MixPointed of each row of logits, in place, by a thread block that reads its logits twice.
// Pointers are device memory, borrowed until the work is done.
struct MixPointedOp {
  static constexpr bool kChangesEachStep = true;  // kernels/device/operation.h
  int64_t rows = 0;
  int64_t vocab = 0;
  int32_t sentinel = 0;
  const PointedToken* pointed = nullptr;  // the tokens of all rows, in row order
  const int64_t* ends = nullptr;          // [rows]: one past the row's last
  float* logits = nullptr;                // [rows, vocab] fp32, dense
  friend bool operator==(const MixPointedOp&, const MixPointedOp&) = default;
};

// Statuses of CheckRows, by which the operation is refused, too; `sentinel` must be the index of
// one of `width` >= 2 logits.
absl::Status CheckPointerRows(const RowSizes& sizes, int32_t sentinel);

}  // namespace recollect::kernels
