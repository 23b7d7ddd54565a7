// The pointer head of a memory adapter (docs/llama.md, "Memory adapter"): copies tokens of
// retrieved chunks whose pointer keys fit the row's query.
//   s_j = q·k_j exp(τ) / √d_p + ln(w_e + 1e-9),  z = ln Σ exp(s_j),  p_copy(v) = Σ_{j: v} exp(s_j -
//   z) p = (1 - σ(γ)) p_base + σ(γ) p_copy,  γ = g·norm(h) + b + μ (z - 3)
// With Z the logarithm of the sum over the base's logits, logits that give p are
//   logit'_v = ln(exp(logit_v) + exp(Z + γ + ln p_copy(v))).
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/cuda_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/key_dots/key_dots.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

constexpr kernels::ScratchName kDots;

constexpr double kLeastWeight = 1e-9;
constexpr double kUsualEvidence = 3;  // z of a good match

struct ScoredToken {
  int32_t token = 0;
  double score = 0;
};

// Whether there is a key in column `at` of keys[d_p, rows]: the first token of a segment has a key
// of zeros.
bool Exists(const Bf16* keys, int64_t rows, int64_t d_p, int64_t at) {
  for (int64_t i = 0; i < d_p; ++i) {
    if (keys[i * rows + at].ToFloat() != 0) return true;
  }
  return false;
}

// The scores of a chunk's tokens, in their order.
std::vector<ScoredToken> ScoreChunk(kernels::OpContext& ctx, const CopiedChunk& chunk,
                                    const float* q, int64_t d_p, double scale) {
  const double base = std::log(chunk.weight + kLeastWeight);
  const int64_t rows = std::ssize(chunk.tokens);
  float* dots = ctx.Floats(kDots, rows);
  kernels::KeyDots(ctx, q, chunk.keys, rows, d_p, dots);
  std::vector<ScoredToken> scored;
  scored.reserve(chunk.tokens.size());
  for (int64_t row = 0; row < rows; ++row) {
    const bool nonzero = std::abs(dots[row]) > 0;
    if (!nonzero && !Exists(chunk.keys, rows, d_p, row)) continue;
    scored.push_back({chunk.tokens[static_cast<size_t>(row)], dots[row] * scale + base});
  }
  return scored;
}

// The scores of all chunks, chunk by chunk, and ln Σ exp of the logits.
struct Scores {
  std::vector<ScoredToken> tokens;
  float log_sum = 0;
};

// On the team if there is one: the sum over the vocabulary takes as long as many chunks.
Scores Score(kernels::OpContext& ctx, const ModelConfig& config, const AdapterWeights& weights,
             const float* q, std::span<const CopiedChunk> chunks, const float* logits) {
  const int64_t d_p = config.adapter.d_pointer;
  const double scale = std::exp(weights.pointer_scale) / std::sqrt(static_cast<double>(d_p));
  std::vector<std::vector<ScoredToken>> of_chunks(chunks.size());
  Scores scores;
  ctx.Share(1 + static_cast<int>(chunks.size()), [&](kernels::OpContext& own, int part) {
    if (part == 0) {
      scores.log_sum = kernels::LogSumExp(own, logits, config.vocab_size);
      return;
    }
    const auto at = static_cast<size_t>(part - 1);
    of_chunks[at] = ScoreChunk(own, chunks[at], q, d_p, scale);
  });
  for (const auto& of_chunk : of_chunks) {
    scores.tokens.insert(scores.tokens.end(), of_chunk.begin(), of_chunk.end());
  }
  return scores;
}

// Adds up the shares of each token in an open hash table.
class Shares {
 public:
  struct Token {
    int32_t id;
    double share;
  };

  explicit Shares(size_t most)
      : shift_(32 - std::bit_width(2 * most)), slots_(size_t{1} << (32 - shift_), -1) {
    tokens_.reserve(most);
  }
  void Add(int32_t id, double share) {
    size_t at = static_cast<uint32_t>(id) * kGolden >> shift_;
    while (slots_[at] >= 0 && tokens_[static_cast<size_t>(slots_[at])].id != id) {
      at = (at + 1) % slots_.size();
    }
    if (slots_[at] < 0) {
      slots_[at] = static_cast<int32_t>(tokens_.size());
      tokens_.push_back({id, 0});
    }
    tokens_[static_cast<size_t>(slots_[at])].share += share;
  }
  // Each token once.
  std::span<const Token> tokens() const { return tokens_; }

 private:
  static constexpr uint32_t kGolden = 0x9e3779b9;  // spreads ids that follow each other
  int shift_;
  std::vector<int32_t> slots_;  // index into tokens_; -1: free
  std::vector<Token> tokens_;
};

// logit = ln(exp(logit) + exp(base) share / total) of each token, on the team if there is one.
void MixIn(kernels::OpContext& ctx, std::span<const Shares::Token> tokens, double base,
           double total, float* logits) {
  constexpr size_t kAtOnce = 64;
  const size_t parts = (tokens.size() + kAtOnce - 1) / kAtOnce;
  ctx.Share(static_cast<int>(parts), [&](kernels::OpContext&, int part) {
    const size_t first = static_cast<size_t>(part) * kAtOnce;
    for (const auto& [id, share] :
         tokens.subspan(first, std::min(kAtOnce, tokens.size() - first))) {
      const auto copied = static_cast<float>(base + std::log(share / total));
      logits[id] = kernels::cuda::LogAddExp(logits[id], copied);
    }
  });
}

// γ of a row.
double GateOf(kernels::OpContext& ctx, const ModelConfig& config, const AdapterWeights& weights,
              const float* h, double evidence) {
  float* normed = ctx.Floats(kNormed, config.d);
  kernels::RmsNorm(ctx, h, nullptr, kAdapterNormEps, 1, config.d, normed);
  double gate = weights.pointer_gate_bias + weights.pointer_evidence * (evidence - kUsualEvidence);
  for (int64_t i = 0; i < config.d; ++i) {
    gate += static_cast<double>(normed[i]) * weights.pointer_gate_proj[static_cast<size_t>(i)];
  }
  return gate;
}

}  // namespace

void CpuModel::MixCopied(kernels::OpContext& ctx, const float* h, const float* q,
                         std::span<const CopiedChunk> chunks, float* logits) const {
  const ModelConfig& config = this->config();
  const Scores scores = Score(ctx, config, weights_->adapter, q, chunks, logits);
  if (scores.tokens.empty()) return;
  double most = scores.tokens.front().score;
  for (const ScoredToken& token : scores.tokens) most = std::max(most, token.score);
  Shares shares(scores.tokens.size());
  double total = 0;
  for (const ScoredToken& token : scores.tokens) {
    RECOLLECT_CHECK(token.token >= 0 && token.token < config.vocab_size);
    const double share = std::exp(token.score - most);
    shares.Add(token.token, share);
    total += share;
  }
  const double gate = GateOf(ctx, config, weights_->adapter, h, most + std::log(total));
  MixIn(ctx, shares.tokens(), scores.log_sum + gate, total, logits);
}

}  // namespace recollect::model
