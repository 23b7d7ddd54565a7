// Sizes of the row-wise operations on a device, and their checks. Host code without CUDA, so that
// every machine tests it.
#ifndef RECOLLECT_KERNELS_BLOCK_ROW_SIZES_H_
#define RECOLLECT_KERNELS_BLOCK_ROW_SIZES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace recollect::kernels {

// [rows, heads, width]: `heads` times `width` numbers side by side in each of `rows` rows, which
// begin `stride` numbers apart; dense rows where heads and stride are left out.
struct RowSizes {
  int64_t rows = 0;
  int64_t width = 0;
  int64_t heads = 1;
  int64_t stride = heads * width;
  friend bool operator==(const RowSizes&, const RowSizes&) = default;
};

// INVALID_ARGUMENT, naming the operation and all sizes, when one is negative or there are no heads,
// when width is not a multiple of `multiple`, rows overlap, or there are more rows (2^31) or
// numbers (2^33) than one launch takes.
absl::Status CheckRows(absl::string_view op, const RowSizes& sizes, int multiple = 1);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_BLOCK_ROW_SIZES_H_
