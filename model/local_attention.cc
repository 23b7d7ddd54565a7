// Attention of consecutive rows over what their layer's state keeps.
#include <algorithm>

#include "kernels/range_attention.h"
#include "model/layers.h"

namespace recollect::model {
namespace {

// Attention of the rows over the heads of one cache; attended[rows, heads of the layer, head_dim].
// A cache of all of a layer's heads may have fewer than the queries.
void AttendCache(kernels::OpContext& ctx, const ModelConfig& config, const LocalCache& cache,
                 bool all_heads, const AttentionRows& rows, float* attended) {
  kernels::RangeSet sets[LayerState::kMaxAppend];
  for (int64_t row = 0; row < rows.count; ++row) sets[row] = cache.Ranges(rows.first + row);
  if (all_heads) {
    kernels::RangeAttention(ctx, rows.q, rows.stride, rows.count, config.heads, cache.heads(),
                            config.head_dim, cache.parts(), sets, attended);
    return;
  }
  const int64_t at = static_cast<int64_t>(cache.first_head()) * config.head_dim;
  const int64_t width = static_cast<int64_t>(cache.heads()) * config.head_dim;
  float* dense = ctx.Floats(kHeadRows, rows.count * width);
  kernels::RangeAttention(ctx, rows.q + at, rows.stride, rows.count, cache.heads(), cache.heads(),
                          config.head_dim, cache.parts(), sets, dense);
  for (int64_t row = 0; row < rows.count; ++row) {
    std::copy_n(dense + row * width, width, attended + row * config.inner() + at);
  }
}

}  // namespace

void AttendState(kernels::OpContext& ctx, const ModelConfig& config, const LayerState& state,
                 const AttentionRows& rows, float* attended) {
  if (state.block_cache() != nullptr) {
    AttendBlocks(ctx, config, *state.block_cache(), rows, attended);
    return;
  }
  const bool all_heads = state.caches().size() == 1;
  for (const LocalCache& cache : state.caches()) {
    AttendCache(ctx, config, cache, all_heads, rows, attended);
  }
}

}  // namespace recollect::model
