// The pieces of the network, one file each: functions of (weights, input rows), and those of
// CpuModel that are a piece by themselves. Private to model/.
//
//   mixer.cc              norm, projections and output gate around a mixer; the mixers are
//   gated_mixer.cc          RAT+ (design 2.2) and RAT: gated recurrence, attention over a pattern
//   attention_mixer.cc      softmax attention over a window or everything
//   rattention_mixer.cc     the same, and linear attention over everything before the window
//   local_attention.cc    attention of rows over a layer's caches
//   block_attention.cc    the same where queries choose blocks
//   gca_layer.cc          Grouped Cross-Attention over retrieved chunks (design 2.5)
//   ffn.cc                SwiGLU, GEGLU or GELU
//   chunk_encoder.cc      closed chunk → chunk states E and landmark key κ (design 2.3)
//   encoder_layers.cc     layers of that encoder and of the adapter's
//   adapter_encoder.cc    the same of a memory adapter, and its queries
//   adapter_pointer.cc    its pointer head
//   adapter_reader.cc     its reader
//   adapter_reranker.cc   its reranker
//   retrieval_query.cc    residual at a landmark → query u (design 2.4)
//   memory_projection.cc  chunk states E → memory K, V (design 2.3)
//
// A thread that has a team shares products and attention with it (kernels/cpu/op_team.h); all else
// is serial. All keep their intermediate rows in the OpContext's scratch memory of the names below.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/op_context.h"
#include "model/config/config.h"
#include "model/cpu/cpu_model.h"
#include "model/weights/adapter_weights.h"
#include "model/weights/weights.h"

namespace recollect::model {

// Names of scratch memory. A function returns its results in kDelta; the others are undefined
// when it returns.
inline constexpr kernels::ScratchName kNormed,  // rows after RMS, input of a projection
    kProjected,                                 // output of the first projection
    kInner,                                     // output of attention, of the FFN's activation
    kDelta,                                     // a sublayer's addition to the residual stream
    kSum,                                       // a + gca of the "bypass" residual
    kKeys, kValues,                             // dense copies of strided projections
    kRowsIn,                                    // residual stream of the chunk encoder
    kState,                                     // recurrence state inside one chunk
    kLow,                                       // x times the lower part of a change of low rank
    kChange,                                    // what the change adds to a product
    kSomeHeads,  // attention of some heads, where heads have different patterns
    kBlockScores,
    kExpanded,  // rows with shared heads written out
    kQueryFeatures, kKeyFeatures,
    kLinear;  // output of linear attention

// Inputs of the functions besides weights.
struct LayerContext {
  const ModelConfig& config;
  DType dtype;
  float norm_eps;  // the config's; the chunk encoder may have its own
};

inline LayerContext ContextOf(const Model& model) {
  return {model.config(), model.dtype(), model.config().norm_eps};
}

// Summed in double.
inline float Dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return static_cast<float>(sum);
}

inline const float* OrNull(const std::vector<float>& values) {
  return values.empty() ? nullptr : values.data();
}

// Runs a mixer on one segment's rows of in_proj's output, [rows, MixerInputRows], which it changes
// in place: appends them to the segment's state and writes attended[rows, heads, head_dim].
using AdvanceMixer = void(kernels::OpContext& ctx, const LayerContext& layer,
                          const MixerWeights& weights, const Segment& segment, float* projected,
                          float* attended);
AdvanceMixer AdvanceRatPlus, AdvanceRat, AdvanceAttention, AdvanceRattention;

// Places rows x[rows, heads, head_dim] of q or k, `stride` floats apart, for the softmax: applies
// RoPE from the segment's next position on, then the norm by head with `gain`, as far as the layer
// has them.
void PlaceHeads(kernels::OpContext& ctx, const LayerContext& layer, const MixerConfig& mixer,
                const Segment& segment, int64_t stride, int heads, const std::vector<float>& gain,
                float* x);

// kDelta[rows, d] = mixer(RMS(h)), whose projections have the change, if there is one; appends the
// rows to the segments' states.
const float* RunMixer(kernels::OpContext& ctx, const LayerContext& layer,
                      const MixerWeights& weights, std::span<const Segment> segments,
                      const float* h, const MixerChange* change = nullptr);

// Rotated queries of consecutive positions: count rows of [heads, head_dim], `stride` floats apart.
struct AttentionRows {
  const float* q = nullptr;
  int64_t stride = 0;
  int64_t first = 0;  // position of row 0
  int64_t count = 0;
  const float* slopes = nullptr;  // [heads] of ALiBi; null: no bias
};

// attended[rows, heads, head_dim] = attention over the entries of `state`, which include the rows'
// own. With slopes, these must be all positions of a window or of the sequence.
void AttendState(kernels::OpContext& ctx, const ModelConfig& config, const LayerState& state,
                 const AttentionRows& rows, float* attended);

// The same over the entries of `cache`.
void AttendBlocks(kernels::OpContext& ctx, const ModelConfig& config, const BlockCache& cache,
                  const AttentionRows& rows, float* attended);

// kDelta[n, d] = gca of the n rows of segments that have retrieved chunks, packed in order; a[rows,
// d]. Returns null when n is 0.
const float* RunGca(kernels::OpContext& ctx, const LayerContext& layer, const GcaWeights& weights,
                    std::span<const Segment> segments, const float* a);

// Lists for the team of `ctx`, if there is one, what RunGca of one row is to read of `segment`.
void ReadGcaSoon(kernels::OpContext& ctx, const LayerContext& layer, const GcaWeights& weights,
                 const Segment& segment);

// kDelta[rows, d] = FFN(RMS(x)).
const float* RunFfn(kernels::OpContext& ctx, const LayerContext& layer, const FfnWeights& weights,
                    const float* x, int64_t rows);

// Where rows of an encoder stand: row 0 at position 0, the others from `second` on.
struct EncoderRope {
  kernels::RopePairs pairs = kernels::RopePairs::kHalves;
  int64_t second = 1;
};
// Runs an encoder's layers in place on x[count, d], whose rows all attend to each other.
void RunEncoderLayers(kernels::OpContext& ctx, const LayerContext& layer,
                      const std::vector<EncoderLayerWeights>& layers, const EncoderRope& rope,
                      float* x, int64_t count);

}  // namespace recollect::model
