// Operations of families other than DRT, as cases of cuda_bench (device_cases.h): block top-k, and
// the linear attention of RAttention.
#pragma once

#include <cstdint>

#include "bench/kernels/device_cases.h"

namespace recollect::bench {

// Computes the bounds of `sizes.blocks` blocks of keys.
absl::StatusOr<DeviceCase> BlockBoundsCase(kernels::Device& device,
                                           const kernels::BlockBoundsSizes& sizes);

// Chooses the blocks of each row's heads, with all rows at sizes.max_position; sets
// sizes.max_entries itself. `shared`: the rows are of one sequence, else each has bounds of its
// own.
absl::StatusOr<DeviceCase> BlockTopKCase(kernels::Device& device, kernels::BlockTopKSizes sizes,
                                         bool shared);

// Computes the features of dense rows, with a scale.
absl::StatusOr<DeviceCase> FeaturesCase(kernels::Device& device, kernels::FeatureMap map,
                                        int64_t rows, int heads, int head_dim);

// Runs `rows` rows of each sequence, all of which enter the state.
absl::StatusOr<DeviceCase> LinearAttentionCase(kernels::Device& device,
                                               const kernels::LinearAttentionSizes& sizes,
                                               int64_t rows);

}  // namespace recollect::bench
