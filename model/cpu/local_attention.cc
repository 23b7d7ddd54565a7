// Attention of consecutive rows over what their layer's state keeps.
#include <algorithm>

#include "kernels/range_attention/range_attention.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

// Over the entries of one cache, whose heads may be fewer than those of `shape`.
template <typename Cache>
void Attend(kernels::OpContext& ctx, const kernels::RangeShape& shape, const Cache& cache,
            const AttentionRows& rows, float* attended) {
  kernels::RangeSet sets[LayerState::kMaxAppend];
  for (int64_t row = 0; row < rows.count; ++row) sets[row] = cache.Ranges(rows.first + row);
  if constexpr (requires { cache.bf16_parts(); }) {
    if (cache.bf16()) {
      return kernels::RangeAttentionOfBf16(ctx, shape, rows.q, rows.stride, rows.count,
                                           cache.bf16_parts(), sets, attended);
    }
  }
  kernels::RangeAttention(ctx, shape, rows.q, rows.stride, rows.count, cache.parts(), sets,
                          attended);
}

// Over the heads of one cache of several; attended[rows, heads of the layer, head_dim].
void AttendSomeHeads(kernels::OpContext& ctx, const ModelConfig& config, const LocalCache& cache,
                     AttentionRows rows, float* attended) {
  const int64_t at = static_cast<int64_t>(cache.first_head()) * config.head_dim;
  const int64_t width = static_cast<int64_t>(cache.heads()) * config.head_dim;
  float* dense = ctx.Floats(kSomeHeads, rows.count * width);
  rows.q += at;
  Attend(ctx, {cache.heads(), cache.heads(), config.head_dim}, cache, rows, dense);
  for (int64_t row = 0; row < rows.count; ++row) {
    std::copy_n(dense + row * width, width, attended + row * config.inner() + at);
  }
}

}  // namespace

void AttendState(kernels::OpContext& ctx, const ModelConfig& config, const LayerState& state,
                 const AttentionRows& rows, float* attended) {
  const auto attend_all = [&](const auto& cache) {
    Attend(ctx, {config.heads, cache.heads(), config.head_dim, rows.slopes}, cache, rows, attended);
  };
  if (state.residual_cache() != nullptr) return attend_all(*state.residual_cache());
  if (state.block_cache() != nullptr) {
    return AttendBlocks(ctx, config, *state.block_cache(), rows, attended);
  }
  if (state.caches().size() == 1) return attend_all(state.caches()[0]);
  for (const LocalCache& cache : state.caches()) {
    AttendSomeHeads(ctx, config, cache, rows, attended);
  }
}

}  // namespace recollect::model
