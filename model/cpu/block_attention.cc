// Attention of queries that choose blocks (spec of RAT+ with block top-k): for every row and head
// by itself, score the whole blocks before its own, choose, and run one softmax over all positions
// that the pattern or a chosen block holds.
#include <algorithm>

#include "kernels/block_topk/block_topk.h"
#include "kernels/range_attention/range_attention.h"
#include "model/cpu/layers.h"

namespace recollect::model {

void AttendBlocks(kernels::OpContext& ctx, const ModelConfig& config, const BlockCache& cache,
                  const AttentionRows& rows, float* attended) {
  const int dim = config.head_dim;
  const int64_t width = config.inner();
  const BlockChoice& choice = cache.choice();
  const kernels::KvSpan all = cache.entries();
  std::vector<int64_t> chosen, positions;
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t position = rows.first + row;
    const int64_t before = position / choice.block;  // whole blocks before its own
    float* scores = ctx.Floats(kBlockScores, before);
    for (int head = 0; head < config.heads; ++head) {
      const int64_t at = static_cast<int64_t>(head) * dim;
      const float* q = rows.q + row * rows.stride + at;
      chosen.clear();
      if (before > 0) {
        kernels::BlockScores(ctx, q, dim, cache.low() + at, cache.high() + at, width, before,
                             scores);
        kernels::ChooseBlocks({scores, static_cast<size_t>(before)}, choice.count - 1, chosen);
      }
      cache.Positions(head, position, chosen, positions);
      const auto entries = static_cast<int64_t>(positions.size());
      float* keys = ctx.Floats(kKeys, entries * dim);
      float* values = ctx.Floats(kValues, entries * dim);
      for (int64_t e = 0; e < entries; ++e) {
        const int64_t from = positions[static_cast<size_t>(e)] * width + at;
        std::copy_n(all.keys + from, dim, keys + e * dim);
        std::copy_n(all.values + from, dim, values + e * dim);
      }
      kernels::RangeSet set;
      set.ranges[0] = {0, entries};
      kernels::RangeAttention(ctx, {.heads = 1, .kv_heads = 1, .head_dim = config.head_dim}, q, dim,
                              1, {kernels::KvSpan{keys, values}}, &set,
                              attended + row * width + at);
    }
  }
}

}  // namespace recollect::model
