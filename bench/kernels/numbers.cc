#include "bench/kernels/numbers.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace recollect::bench {

absl::Status ExpectClose(std::span<const float> actual, std::span<const float> expected,
                         double magnitude, absl::string_view what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::abs(actual[i] - expected[i]) <= 1e-5 * magnitude) continue;
    return absl::InternalError(absl::StrCat("WRONG ANSWER, ", what, ", number ", i, ": ", actual[i],
                                            ", expected ", expected[i]));
  }
  return absl::OkStatus();
}

}  // namespace recollect::bench
