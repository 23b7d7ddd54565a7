// Checks of the sizes of operations on a device. Host code without CUDA, so that every machine
// tests them.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace recollect::kernels {

// Thread blocks of a launch in its second and third dimension, at most.
inline constexpr int64_t kMaxGridSide = 65535;

// A size between two others, with the words around it in an error: {"of ", 0, " heads", 1, 64}.
struct SizeLimit {
  absl::string_view before;
  int64_t size;
  absl::string_view after;
  int64_t least, most;
};

// INVALID_ARGUMENT for the first size beyond its limits: "op of 0 heads, expected 1 to 64".
absl::Status CheckSizes(absl::string_view op, std::initializer_list<SizeLimit> sizes);

// INVALID_ARGUMENT for more than was planned: "op of 3 segments, planned for 2".
absl::Status CheckPlanned(absl::string_view op, int64_t count, absl::string_view things,
                          int64_t planned);

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
