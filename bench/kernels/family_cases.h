// The operations of other families than DRT's, as cases of cuda_bench (device_cases.h): block
// top-k, and the linear attention of RAttention.
#ifndef RECOLLECT_BENCH_KERNELS_FAMILY_CASES_H_
#define RECOLLECT_BENCH_KERNELS_FAMILY_CASES_H_

#include <cstdint>

#include "bench/kernels/device_cases.h"

namespace recollect::bench {

// Bounds of `sizes.blocks` blocks of keys.
absl::StatusOr<DeviceCase> BlockBoundsCase(kernels::Device& device,
                                           const kernels::BlockBoundsSizes& sizes);

// The blocks of each row's heads, all rows at sizes.max_position; sizes.max_entries is chosen here.
// `shared`: the rows of one sequence, else each with bounds of its own.
absl::StatusOr<DeviceCase> BlockTopKCase(kernels::Device& device, kernels::BlockTopKSizes sizes,
                                         bool shared);

// Of dense rows, with a scale.
absl::StatusOr<DeviceCase> FeaturesCase(kernels::Device& device, kernels::FeatureMap map,
                                        int64_t rows, int heads, int head_dim);

// So many rows of each sequence, all of them entering.
absl::StatusOr<DeviceCase> LinearAttentionCase(kernels::Device& device,
                                               const kernels::LinearAttentionSizes& sizes,
                                               int64_t rows);

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_KERNELS_FAMILY_CASES_H_
