// The pointer head of a memory adapter (docs/llama.md, "Memory adapter"): copies tokens of
// retrieved chunks whose pointer keys fit the row's query.
//   s_j = q·k_j exp(τ) / √d_p + ln(w_e + 1e-9),  z = ln Σ exp(s_j),  p_copy(v) = Σ_{j: v} exp(s_j -
//   z) p = (1 - σ(γ)) p_base + σ(γ) p_copy,  γ = g·norm(h) + b + μ (z - 3)
// With Z the logarithm of the sum over the base's logits, logits that give p are
//   logit'_v = ln(exp(logit_v) + exp(Z + γ + ln p_copy(v))).
#include <algorithm>
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

// Keys whose sums are taken side by side, so that none waits for itself.
constexpr int kKeysAtOnce = 8;

// dots[i] = q·keys_i for i < count, each summed in order.
void Dots(const float* q, const Bf16* keys, int64_t d_p, int count, float* dots) {
  const Bf16* key[kKeysAtOnce];
  float sums[kKeysAtOnce] = {};
  for (int r = 0; r < kKeysAtOnce; ++r) key[r] = keys + std::min(r, count - 1) * d_p;
  for (int64_t i = 0; i < d_p; ++i) {
    for (int r = 0; r < kKeysAtOnce; ++r) sums[r] += q[i] * key[r][i].ToFloat();
  }
  std::copy_n(sums, count, dots);
}

// The first token of a segment has a key of zeros.
bool Exists(const Bf16* key, int64_t d_p) {
  return std::any_of(key, key + d_p, [](Bf16 value) { return value.ToFloat() != 0; });
}

std::vector<ScoredToken> ScoreChunk(const CopiedChunk& chunk, const float* q, int64_t d_p,
                                    double scale) {
  const double base = std::log(chunk.weight + kLeastWeight);
  const int rows = static_cast<int>(chunk.tokens.size());
  std::vector<ScoredToken> scored;
  for (int first = 0; first < rows; first += kKeysAtOnce) {
    const int count = std::min(kKeysAtOnce, rows - first);
    float dots[kKeysAtOnce];
    Dots(q, chunk.keys + first * d_p, d_p, count, dots);
    for (int i = 0; i < count; ++i) {
      const int row = first + i;
      if (!Exists(chunk.keys + row * d_p, d_p)) continue;
      scored.push_back({chunk.tokens[static_cast<size_t>(row)], dots[i] * scale + base});
    }
  }
  return scored;
}

// Chunk by chunk, on the team if there is one.
std::vector<ScoredToken> Score(kernels::OpContext& ctx, const ModelConfig& config,
                               const AdapterWeights& weights, const float* q,
                               std::span<const CopiedChunk> chunks) {
  const int64_t d_p = config.adapter.d_pointer;
  const double scale = std::exp(weights.pointer_scale) / std::sqrt(static_cast<double>(d_p));
  std::vector<std::vector<ScoredToken>> of_chunks(chunks.size());
  ctx.Share(static_cast<int>(chunks.size()), [&](kernels::OpContext&, int chunk) {
    const auto at = static_cast<size_t>(chunk);
    of_chunks[at] = ScoreChunk(chunks[at], q, d_p, scale);
  });
  std::vector<ScoredToken> scored;
  for (const auto& of_chunk : of_chunks)
    scored.insert(scored.end(), of_chunk.begin(), of_chunk.end());
  return scored;
}

}  // namespace

void CpuModel::MixCopied(kernels::OpContext& ctx, const float* h, const float* q,
                         std::span<const CopiedChunk> chunks, float* logits) const {
  const ModelConfig& config = this->config();
  const AdapterWeights& weights = weights_->adapter;
  const std::vector<ScoredToken> scored = Score(ctx, config, weights, q, chunks);
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
