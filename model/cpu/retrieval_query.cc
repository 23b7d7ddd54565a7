// Retrieval query of a group at a landmark (design 2.4): u = W_h RMS(h), or RMS(h) alone without
// score projections. The engine compares it with the landmark keys.
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/layers.h"

namespace recollect::model {

void CpuModel::Query(kernels::OpContext& ctx, int group, const float* h, float* u) const {
  const ModelConfig& config = this->config();
  const QueryWeights& weights = weights_->queries[static_cast<size_t>(group)];
  float* normed = weights.proj ? ctx.Floats(kNormed, config.d) : u;
  kernels::RmsNorm(ctx, h, weights.norm.data(), config.norm_eps, 1, config.d, normed);
  if (weights.proj) kernels::Gemm(ctx, *weights.proj, normed, 1, u);
}

}  // namespace recollect::model
