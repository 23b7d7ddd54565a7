// The mixers with a gated recurrence: keys and values pass it, RoPE follows on q and the gated
// keys, and each token attends to its local pattern.
//
//   RAT+ (design 2.2)  o, q, k, v, g = in_proj RMS(h); one recurrence over the whole sequence.
//   RAT                z, v, g, q, k = in_proj RMS(h), q and k of a few heads that all heads share
//                      in turn. The recurrence starts anew in every chunk of L positions, and RoPE
//                      counts chunks. The pattern, own token and ends of earlier chunks, is that of
//                      RAT+ with window 0 and dilation L.
#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "kernels/gated_scan/gated_scan.h"
#include "kernels/rope/rope.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

// q, k, v, g of consecutive positions, side by side in rows `stride` floats apart; q, k and v are
// changed in place into what is attended with.
void AdvanceGated(kernels::OpContext& ctx, const LayerContext& layer, const MixerWeights& weights,
                  const Segment& segment, float* q, int64_t stride, float* attended) {
  const ModelConfig& config = layer.config;
  const MixerConfig& mixer = weights.config;
  const int64_t inner = config.inner();
  LayerState& state = *segment.state;
  float* k = q + inner;
  float* v = q + 2 * inner;
  const float* g = q + 3 * inner;
  const int64_t first = state.length();
  const auto scan = [&](float* x, float* recurrence) {
    const float* bias = weights.gate_bias.empty() ? nullptr : weights.gate_bias.data();
    if (mixer.kind == MixerKind::kRat) {
      kernels::ChunkedGatedScan(ctx, first, mixer.chunk, g, bias, x, stride, segment.rows, inner,
                                recurrence, x, stride);
    } else {
      kernels::GatedScan(ctx, g, bias, x, stride, segment.rows, inner, recurrence, x, stride);
    }
  };
  if (config.recurrence) {
    scan(k, state.key_recurrence());
    scan(v, state.value_recurrence());
  }
  if (mixer.positions == Positions::kRope) {
    const kernels::RopeAngles angles{.base = state.rope_base(),
                                     .pairs = config.rope_pairs,
                                     .step = std::max<int64_t>(mixer.chunk, 1)};
    for (float* x : {q, k}) {
      kernels::Rope(ctx, angles, first, segment.rows, stride, config.heads, config.head_dim, x);
    }
  }
  if (layer.dtype == DType::kBf16) {
    // q, k and v lie side by side in a row.
    for (int64_t row = 0; row < segment.rows; ++row) {
      kernels::RoundToBf16(ctx, q + row * stride, 3 * inner);
    }
  }
  state.Append(k, v, segment.rows, stride);
  AttendState(ctx, config, state, {q, stride, first, segment.rows}, attended);
}

}  // namespace

void AdvanceRatPlus(kernels::OpContext& ctx, const LayerContext& layer, const MixerWeights& weights,
                    const Segment& segment, float* projected, float* attended) {
  const int64_t inner = layer.config.inner();
  AdvanceGated(ctx, layer, weights, segment, projected + inner, 5 * inner, attended);
}

void AdvanceRat(kernels::OpContext& ctx, const LayerContext& layer, const MixerWeights& weights,
                const Segment& segment, float* projected, float* attended) {
  const ModelConfig& config = layer.config;
  const int64_t inner = config.inner(), dim = config.head_dim;
  const int64_t shared = weights.config.shared_heads, stride = 4 * inner;
  const int64_t width = MixerInputRows(config, weights.config);
  float* expanded = ctx.Floats(kExpanded, segment.rows * stride);
  for (int64_t row = 0; row < segment.rows; ++row) {
    const float* v = projected + row * width + inner;
    const float* g = v + inner;
    const float* q = g + inner;
    const float* k = q + shared * dim;
    float* out = expanded + row * stride;
    for (int64_t head = 0; head < config.heads; ++head) {
      std::copy_n(q + head % shared * dim, dim, out + head * dim);
      std::copy_n(k + head % shared * dim, dim, out + inner + head * dim);
    }
    std::copy_n(v, 2 * inner, out + 2 * inner);
  }
  AdvanceGated(ctx, layer, weights, segment, expanded, stride, attended);
}

}  // namespace recollect::model
