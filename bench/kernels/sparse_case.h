// The sparse search as a case of cuda_bench.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "bench/kernels/device_report.h"

namespace recollect::bench {

// Finds the 8 best of 290 000 blocks, as many as 16 million tokens have, for one query of so many
// words; with a dense part of `width` channels unless that is 0. The frequency of words falls as in
// texts; a query has the commonest ones, which is the most work. The best scores must be the CPU's,
// without a dense part to the bit.
absl::Status SparseSearchOf16M(Report& report, Case c, int64_t words, int width);

}  // namespace recollect::bench
