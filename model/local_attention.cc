// Attention of consecutive rows over what their layer's state keeps.
#include <algorithm>

#include "kernels/range_attention.h"
#include "model/layers.h"

namespace recollect::model {
namespace {

// Over a cache of all of a layer's key-value heads, which may be fewer than the queries'.
template <typename Cache>
void AttendAllHeads(kernels::OpContext& ctx, const ModelConfig& config, const Cache& cache,
                    const AttentionRows& rows, float* attended) {
  kernels::RangeSet sets[LayerState::kMaxAppend];
  for (int64_t row = 0; row < rows.count; ++row) sets[row] = cache.Ranges(rows.first + row);
  kernels::RangeAttention(ctx, {config.heads, cache.heads(), config.head_dim, rows.slopes}, rows.q,
                          rows.stride, rows.count, cache.parts(), sets, attended);
}

// Over the heads of one cache of several; attended[rows, heads of the layer, head_dim].
void AttendSomeHeads(kernels::OpContext& ctx, const ModelConfig& config, const LocalCache& cache,
                     const AttentionRows& rows, float* attended) {
  kernels::RangeSet sets[LayerState::kMaxAppend];
  for (int64_t row = 0; row < rows.count; ++row) sets[row] = cache.Ranges(rows.first + row);
  const int64_t at = static_cast<int64_t>(cache.first_head()) * config.head_dim;
  const int64_t width = static_cast<int64_t>(cache.heads()) * config.head_dim;
  float* dense = ctx.Floats(kHeadRows, rows.count * width);
  kernels::RangeAttention(ctx, {cache.heads(), cache.heads(), config.head_dim}, rows.q + at,
                          rows.stride, rows.count, cache.parts(), sets, dense);
  for (int64_t row = 0; row < rows.count; ++row) {
    std::copy_n(dense + row * width, width, attended + row * config.inner() + at);
  }
}

}  // namespace

void AttendState(kernels::OpContext& ctx, const ModelConfig& config, const LayerState& state,
                 const AttentionRows& rows, float* attended) {
  if (const ResidualCache* residual = state.residual_cache()) {
    AttendAllHeads(ctx, config, *residual, rows, attended);
    return;
  }
  if (state.block_cache() != nullptr) {
    AttendBlocks(ctx, config, *state.block_cache(), rows, attended);
    return;
  }
  if (state.caches().size() == 1) {
    AttendAllHeads(ctx, config, state.caches()[0], rows, attended);
    return;
  }
  for (const LocalCache& cache : state.caches()) {
    AttendSomeHeads(ctx, config, cache, rows, attended);
  }
}

}  // namespace recollect::model
