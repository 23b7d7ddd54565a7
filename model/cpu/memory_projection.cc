// Memory K and V of a chunk from its stored states (design 2.3): K = rec(W_K E), V = W_V E, one
// pair for the whole model. The recurrence starts from zero in every chunk, so a chunk's memory
// depends on nothing but its states.
#include <algorithm>

#include "kernels/gated_scan/gated_scan.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/layers.h"

namespace recollect::model {

Memory CpuModel::ProjectSharedMemory(kernels::OpContext& ctx, std::span<const Bf16> states,
                                     int rows) const {
  const ModelConfig& config = this->config();
  const MemoryWeights& weights = weights_->memory;
  const int64_t width = config.memory_width();
  const int64_t count = rows * width;
  float* input = ctx.Floats(kNormed, rows * config.d);
  float* keys = ctx.Floats(kKeys, count);
  float* values = ctx.Floats(kValues, count);
  std::transform(states.begin(), states.end(), input, [](Bf16 value) { return value.ToFloat(); });
  kernels::Gemm(ctx, weights.k_proj, input, rows, keys);
  if (weights.gate_proj) {
    float* gates = ctx.Floats(kProjected, count);
    float* state = ctx.Floats(kState, width);
    std::fill(state, state + width, 0.0f);
    kernels::Gemm(ctx, *weights.gate_proj, input, rows, gates);
    kernels::GatedScan(ctx, gates, nullptr, keys, width, rows, width, state, keys, width);
  }
  kernels::Gemm(ctx, weights.v_proj, input, rows, values);

  Memory memory;
  memory.rows = rows;
  memory.keys.resize(static_cast<size_t>(count));
  memory.values.resize(static_cast<size_t>(count));
  std::transform(keys, keys + count, memory.keys.begin(), Bf16::FromFloat);
  std::transform(values, values + count, memory.values.begin(), Bf16::FromFloat);
  return memory;
}

}  // namespace recollect::model
