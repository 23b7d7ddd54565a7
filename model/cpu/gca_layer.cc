// Grouped Cross-Attention (design 2.5): the rows of a block attend inside each retrieved chunk on
// its own, and the chunks' outputs are summed by the retrieval weights. Only rows that have
// something to read take part, so that a row's result does not depend on whether its neighbours do.
#include <vector>

#include "base/check.h"
#include "kernels/cpu/op_team.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gca/gca.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

kernels::GcaShape ShapeOf(const ModelConfig& config) {
  return {.heads = config.heads,
          .kv_heads = config.memory_kv_heads,
          .head_dim = config.head_dim,
          .off_by_one = config.gca_softmax == GcaSoftmax::kOffByOne};
}

std::vector<kernels::MemoryView> ChunksOf(const ModelConfig& config, const GcaWeights& weights,
                                          const Segment& segment) {
  return OfLayer(segment.retrieved->chunks, weights.memory_layer, config.memory_width());
}

}  // namespace

void ReadGcaSoon(kernels::OpContext& ctx, const LayerContext& layer, const GcaWeights& weights,
                 const Segment& segment) {
  const std::vector<kernels::MemoryView> chunks = ChunksOf(layer.config, weights, segment);
  kernels::ReadSoon(ctx, weights.q_proj);
  kernels::ReadChunksSoon(ctx, ShapeOf(layer.config), chunks.data(), std::ssize(chunks));
  kernels::ReadSoon(ctx, weights.out_proj);
}

const float* RunGca(kernels::OpContext& ctx, const LayerContext& layer, const GcaWeights& weights,
                    std::span<const Segment> segments, const float* a) {
  const ModelConfig& config = layer.config;
  const int64_t inner = config.inner();
  int64_t reading = 0;
  for (const Segment& segment : segments) reading += segment.reads_memory() ? segment.rows : 0;
  if (reading == 0) return nullptr;
  float* normed = ctx.Floats(kNormed, reading * config.d);
  float* queries = ctx.Floats(kProjected, reading * inner);
  float* read = ctx.Floats(kInner, reading * inner);
  float* delta = ctx.Floats(kDelta, reading * config.d);

  int64_t row = 0;
  int64_t packed = 0;
  for (const Segment& segment : segments) {
    if (segment.reads_memory()) {
      kernels::RmsNorm(ctx, a + row * config.d, weights.norm.data(), weights.norm_eps, segment.rows,
                       config.d, normed + packed * config.d);
      packed += segment.rows;
    }
    row += segment.rows;
  }
  kernels::Gemm(ctx, weights.q_proj, normed, reading, queries);
  const bool bf16 = layer.dtype != DType::kFloat32;
  if (bf16) kernels::RoundToBf16(ctx, queries, reading * inner);

  const kernels::GcaShape shape = ShapeOf(config);
  packed = 0;
  for (const Segment& segment : segments) {
    if (!segment.reads_memory()) continue;
    const Retrieved& retrieved = *segment.retrieved;
    RECOLLECT_CHECK(retrieved.chunks.size() == retrieved.weights.size());
    const std::vector<kernels::MemoryView> chunks = ChunksOf(config, weights, segment);
    auto* attend = bf16 ? &kernels::GcaOfBf16 : &kernels::Gca;
    attend(ctx, shape, queries + packed * inner, segment.rows, chunks.data(),
           retrieved.weights.data(), static_cast<int64_t>(retrieved.chunks.size()),
           read + packed * inner);
    packed += segment.rows;
  }
  kernels::Gemm(ctx, weights.out_proj, read, reading, delta);
  return delta;
}

}  // namespace recollect::model
