#include "kernels/block/check_sizes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace recollect::kernels {
namespace {

// A launch may have 2^31 - 1 thread blocks. Some operations need one for a row, RMSNorm one for
// eight heads, which may be of one number.
constexpr int64_t kMaxRows = int64_t{1} << 31;
constexpr int64_t kMaxNumbers = int64_t{1} << 33;

}  // namespace

absl::Status CheckSizes(absl::string_view op, std::initializer_list<SizeLimit> sizes) {
  for (const SizeLimit& limit : sizes) {
    if (limit.size >= limit.least && limit.size <= limit.most) continue;
    return absl::InvalidArgumentError(absl::StrCat(op, " ", limit.before, limit.size, limit.after,
                                                   ", expected ", limit.least, " to ", limit.most));
  }
  return absl::OkStatus();
}

absl::Status CheckPlanned(absl::string_view op, int64_t count, absl::string_view things,
                          int64_t planned) {
  if (count <= planned) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(op, " of ", count, " ", things, ", planned for ", planned));
}

absl::Status CheckRows(absl::string_view op, const RowSizes& sizes, int multiple) {
  const auto [rows, width, heads, stride] = sizes;
  absl::string_view wrong;
  if (rows < 0 || width < 0 || heads < 1) {
    wrong = "a size is too small";
  } else if (width % multiple != 0) {
    wrong = "a width that the operation does not take";
  } else if (rows >= kMaxRows || width > kMaxNumbers / heads ||
             rows * std::max<int64_t>(heads * width, 1) > kMaxNumbers) {
    wrong = "too many for one launch";
  } else if (stride < heads * width) {
    wrong = "rows overlap";
  } else {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(op, " of ", rows, " rows of ", heads, " x ", width,
                                                 " numbers, ", stride, " apart: ", wrong));
}

}  // namespace recollect::kernels
