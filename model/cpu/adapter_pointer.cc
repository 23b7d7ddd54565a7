// The pointer head of a memory adapter (docs/llama.md, "Memory adapter"): copies tokens of
// retrieved chunks whose pointer keys fit the row's query.
//   s_j = q·k_j exp(τ) / √d_p + ln(w_e + 1e-9),  z = ln Σ exp(s_j),  p_copy(v) = Σ_{j: v} exp(s_j -
//   z) p = (1 - σ(γ)) p_base + σ(γ) p_copy,  γ = g·norm(h) + b + μ (z - 3)
// With Z the logarithm of the sum over the base's logits, logits that give p are
//   logit'_v = ln(exp(logit_v) + exp(Z + γ + ln p_copy(v))).
#include <cmath>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/cuda_math.h"
#include "kernels/elementwise/elementwise.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

constexpr double kLeastWeight = 1e-9;
constexpr double kUsualEvidence = 3;  // z of a good match

struct ScoredToken {
  int32_t token = 0;
  double score = 0;
};

std::vector<ScoredToken> Score(const ModelConfig& config, const AdapterWeights& weights,
                               const float* q, std::span<const CopiedChunk> chunks) {
  const int64_t d_p = config.adapter.d_pointer;
  const double scale = std::exp(weights.pointer_scale) / std::sqrt(static_cast<double>(d_p));
  std::vector<ScoredToken> scored;
  for (const CopiedChunk& chunk : chunks) {
    const double base = std::log(chunk.weight + kLeastWeight);
    for (size_t row = 0; row < chunk.tokens.size(); ++row) {
      const Bf16* const key = chunk.keys + static_cast<int64_t>(row) * d_p;
      float dot = 0;
      bool exists = false;
      for (int64_t i = 0; i < d_p; ++i) {
        const float value = key[i].ToFloat();
        exists = exists || value != 0;
        dot += q[i] * value;
      }
      if (exists) scored.push_back({chunk.tokens[row], dot * scale + base});
    }
  }
  return scored;
}

}  // namespace

void RunPointerMix(kernels::OpContext& ctx, const LayerContext& layer,
                   const AdapterWeights& weights, const float* h, const float* q,
                   std::span<const CopiedChunk> chunks, float* logits) {
  const ModelConfig& config = layer.config;
  const std::vector<ScoredToken> scored = Score(config, weights, q, chunks);
  if (scored.empty()) return;
  double most = scored.front().score;
  for (const ScoredToken& token : scored) most = std::max(most, token.score);
  std::unordered_map<int32_t, double> mass;  // of each token, times exp(z - most)
  double total = 0;
  for (const ScoredToken& token : scored) {
    const double share = std::exp(token.score - most);
    mass[token.token] += share;
    total += share;
  }
  const double evidence = most + std::log(total);
  float* normed = ctx.Floats(kNormed, config.d);
  kernels::RmsNorm(ctx, h, nullptr, kAdapterNormEps, 1, config.d, normed);
  double gate = weights.pointer_gate_bias + weights.pointer_evidence * (evidence - kUsualEvidence);
  for (int64_t i = 0; i < config.d; ++i) {
    gate += static_cast<double>(normed[i]) * weights.pointer_gate_proj[static_cast<size_t>(i)];
  }
  const double base = kernels::LogSumExp(ctx, logits, config.vocab_size) + gate;
  for (const auto& [token, share] : mass) {
    RECOLLECT_CHECK(token >= 0 && token < config.vocab_size);
    const auto copied = static_cast<float>(base + std::log(share / total));
    logits[token] = kernels::cuda::LogAddExp(logits[token], copied);
  }
}

}  // namespace recollect::model
