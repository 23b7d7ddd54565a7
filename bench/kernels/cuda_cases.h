// The cases of cuda_bench: each prepares an operation's inputs on the device, checks a few rows of
// its answer against the scalar references, and times it. Sizes are those of the published numbers
// of RAT+, H = 2048 as 32 heads of 64. Cases return RESOURCE_EXHAUSTED if the device lacks memory.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "bench/kernels/device_report.h"
#include "kernels/gemm/gemm_cuda.h"

namespace recollect::bench {

inline constexpr int kHeads = 32, kHeadDim = 64;
inline constexpr int64_t kWidth = kHeads * kHeadDim;

// Attention for one row of each of `batch` sequences, which reads all `entries` of a cache of its
// own: Bf16 by tile attention, fp32 by range attention.
absl::Status Decode(Report& report, Case c, DType dtype, int64_t batch, int64_t entries,
                    bool graph);

// Attention for all rows of one sequence: row t reads the first t / dilation + 1 entries of a
// compact cache.
absl::Status Prefill(Report& report, Case c, DType dtype, int64_t tokens, int64_t dilation);

absl::Status Scan(Report& report, Case c, int64_t rows);

// Grouped Cross-Attention with q in bf16, for `groups` groups of `rows` rows, each with 8 of `pool`
// chunks of 64 rows.
absl::Status GroupedCrossAttention(Report& report, Case c, int64_t groups, int32_t rows,
                                   int64_t pool);

// Finds the 8 best of `keys` keys of width 256 for each query.
absl::Status LandmarkSearch(Report& report, Case c, int64_t keys, int64_t queries);

// Runs `times` products, one after the other; also as a graph if there are several or if they are
// of one row.
absl::Status Product(Report& report, const kernels::CublasLt& lt, Case c,
                     const kernels::GemmShape& shape, int64_t rows, int64_t times);

}  // namespace recollect::bench
