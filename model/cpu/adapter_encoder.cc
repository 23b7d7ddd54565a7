// The encoder of a memory adapter (docs/llama.md, "Memory adapter"), which is the same for
// blocks of documents and for what a prompt's end asks for: a learned row CLS, which says which of
// both it is, and the rows of the tokens, in bidirectional pre-norm layers. Rows of a block stand
// from row 1 on; those of a query end at the last row, wherever it begins.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/layers.h"
#include "model/text/words.h"

namespace recollect::model {
namespace {

enum Role : int { kBlock, kQuery };

float Softplus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))); }

// In place on x[width]: x / |x|, times `scale`.
void Normalize(float* x, int64_t width, double scale) {
  double squares = 0;
  for (int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * x[i];
  const auto factor = static_cast<float>(scale / std::max(std::sqrt(squares), 1e-12));
  for (int64_t i = 0; i < width; ++i) x[i] *= factor;
}

// kRowsIn[1 + rows, d]: the outputs, normalised, of CLS and of each row of h[rows, d].
float* RunEncoder(kernels::OpContext& ctx, const LayerContext& layer, const AdapterWeights& weights,
                  Role role, const float* h, int64_t rows) {
  const ModelConfig& config = layer.config;
  const int64_t d = config.d, count = rows + 1;
  float* x = ctx.Floats(kRowsIn, count * d);
  std::copy_n(weights.cls.data() + role * d, d, x);
  kernels::RmsNorm(ctx, h, nullptr, kAdapterNormEps, rows, d, x + d);
  const EncoderRope rope{.second = role == kQuery ? config.chunk_tokens + 1 - rows : 1};
  RunEncoderLayers(ctx, {config, layer.dtype, kAdapterNormEps}, weights.layers, rope, x, count);
  kernels::RmsNorm(ctx, x, weights.out_norm.data(), kAdapterNormEps, count, d, x);
  return x;
}

// The pointer key of each token says what the row before it knew, which predicts it. q likewise.
void ProjectPointer(kernels::OpContext& ctx, const ModelConfig& config,
                    const kernels::PackedMatrix& proj, const float* h, int64_t rows, float* out) {
  float* normed = ctx.Floats(kNormed, rows * config.d);
  kernels::RmsNorm(ctx, h, nullptr, kAdapterNormEps, rows, config.d, normed);
  kernels::Gemm(ctx, proj, normed, rows, out);
  kernels::RmsNorm(ctx, out, nullptr, kAdapterNormEps, rows, config.adapter.d_pointer, out);
}

// The words of one to chunk_tokens tokens.
std::vector<int32_t> WordsOf(const Model& model, std::span<const int32_t> tokens) {
  RECOLLECT_CHECK(model.config().has_adapter() && !tokens.empty() &&
                  std::ssize(tokens) <= model.config().chunk_tokens);
  std::vector<int32_t> words;
  for (const int32_t token : tokens) words.push_back(model.words()->word(token));
  return words;
}

}  // namespace

EncodedChunk CpuModel::EncodeBlock(kernels::OpContext& ctx, const float* h, const float* before,
                                   std::span<const int32_t> tokens) const {
  const ModelConfig& config = this->config();
  const AdapterWeights& weights = weights_->adapter;
  const std::vector<int32_t> words = WordsOf(*this, tokens);
  const int64_t d = config.d, d_p = config.adapter.d_pointer, rows = std::ssize(words);
  const float* outputs = RunEncoder(ctx, ContextOf(*this), weights, kBlock, h, rows);
  EncodedChunk chunk;
  chunk.rows = static_cast<int>(rows);

  float* key = ctx.Floats(kProjected, config.d_r);
  kernels::Gemm(ctx, weights.landmark_proj, outputs, 1, key);
  Normalize(key, config.d_r, 1);
  chunk.landmark_key.resize(static_cast<size_t>(config.key_width()));
  std::transform(key, key + config.d_r, chunk.landmark_key.begin(), Bf16::FromFloat);
  for (int64_t row = 0; row < rows; ++row) {
    const float weight = Softplus(Dot(weights.key_word_proj.data(), outputs + (row + 1) * d, d) +
                                  weights.key_word_bias[static_cast<size_t>(words[row])]);
    chunk.landmark_key[static_cast<size_t>(config.d_r + row)] = Bf16::FromFloat(weight);
  }

  float* states = ctx.Floats(kDelta, rows * d);
  kernels::Gemm(ctx, weights.states_proj, outputs + d, rows, states);
  kernels::Add(ctx, h, rows * d, states);
  float* keys = ctx.Floats(kProjected, rows * d_p);
  std::fill_n(keys, d_p, 0.0f);
  if (before != nullptr) ProjectPointer(ctx, config, weights.pointer_key_proj, before, 1, keys);
  ProjectPointer(ctx, config, weights.pointer_key_proj, h, rows - 1, keys + d_p);
  chunk.states.reserve(static_cast<size_t>(rows * config.state_width()));
  for (int64_t row = 0; row < rows; ++row) {
    const auto append = [&](const float* from, int64_t count) {
      std::transform(from, from + count, std::back_inserter(chunk.states), Bf16::FromFloat);
    };
    append(states + row * d, d);
    append(keys + row * d_p, d_p);
  }
  return chunk;
}

void CpuModel::RecallQuery(kernels::OpContext& ctx, const float* h, std::span<const int32_t> tokens,
                           float* u) const {
  const ModelConfig& config = this->config();
  const AdapterWeights& weights = weights_->adapter;
  const std::vector<int32_t> words = WordsOf(*this, tokens);
  const int64_t d = config.d, rows = std::ssize(words);
  const float* outputs = RunEncoder(ctx, ContextOf(*this), weights, kQuery, h, rows);
  double scales[] = {config.adapter.dense_share, config.adapter.sparse_share};
  for (int part = 0; part < 2; ++part) {
    scales[part] *= std::exp(static_cast<double>(weights.score_scale[part]) +
                             Dot(weights.score_mix_proj.data() + part * d, outputs, d) +
                             weights.score_mix_bias[part]);
  }
  kernels::Gemm(ctx, weights.query_proj, outputs, 1, u);
  // LandmarkScores divides by the square root of the width.
  Normalize(u, config.d_r, scales[0] * std::sqrt(static_cast<double>(config.d_r)));
  float* const word_weights = u + config.d_r;
  const int64_t missing = config.chunk_tokens - rows;
  std::fill_n(word_weights, missing, 0.0f);
  for (int64_t row = 0; row < rows; ++row) {
    const float weight = Softplus(Dot(weights.query_word_proj.data(), outputs + (row + 1) * d, d) +
                                  weights.query_word_bias[static_cast<size_t>(words[row])]);
    word_weights[missing + row] = static_cast<float>(weight * scales[1]);
  }
  u[config.key_width()] = Dot(weights.nothing_proj.data(), outputs, d) + weights.nothing_bias;
}

Memory CpuModel::ProjectAdapterMemory(kernels::OpContext& ctx, std::span<const Bf16> states,
                                      int rows) const {
  const ModelConfig& config = this->config();
  const int64_t d = config.d, d_p = config.adapter.d_pointer, stride = config.state_width();
  const int64_t count = rows * config.memory_width();
  Memory memory;
  if (config.adapter.reader.exists()) memory = ProjectForReader(ctx, states, rows);
  float* input = ctx.Floats(kRowsIn, rows * d);
  float* normed = ctx.Floats(kNormed, rows * d);
  float* projected = ctx.Floats(kProjected, count);
  memory.rows = rows;
  memory.pointer_keys.resize(static_cast<size_t>(rows * d_p));
  for (int64_t row = 0; row < rows; ++row) {
    const Bf16* const state = states.data() + row * stride;
    std::transform(state, state + d, input + row * d, [](Bf16 value) { return value.ToFloat(); });
    for (int64_t i = 0; i < d_p; ++i) memory.pointer_keys[i * rows + row] = state[d + i];
  }
  const auto project = [&](const kernels::PackedMatrix& proj, std::vector<Bf16>& out) {
    kernels::Gemm(ctx, proj, normed, rows, projected);
    std::transform(projected, projected + count, std::back_inserter(out), Bf16::FromFloat);
  };
  for (const AdapterMemoryWeights& of_layer : weights_->adapter.memory) {
    kernels::RmsNorm(ctx, input, of_layer.norm.data(), kAdapterNormEps, rows, d, normed);
    project(of_layer.k_proj, memory.keys);
    project(of_layer.v_proj, memory.values);
  }
  return memory;
}

void CpuModel::PointerQuery(kernels::OpContext& ctx, const float* h, float* q) const {
  ProjectPointer(ctx, config(), weights_->adapter.pointer_query_proj, h, 1, q);
}

}  // namespace recollect::model
