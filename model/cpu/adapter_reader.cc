// The reader of a memory adapter (docs/llama.md, "Reader"). For the rows c_i of a block's tokens
// and q_j of the question, all of unit RMS:
//   u_i = Σ_j softmax_j((W_ask c_i)·q_j / √c) q_j,  x_i = W_mix [c_i, u_i, c_i ∘ u_i, marks_i],
// then bidirectional layers over the block, and from each row three scores.
#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/range_attention/range_attention.h"
#include "model/cpu/layers.h"
#include "model/text/words.h"
#include "model/weights/reader_weights.h"

namespace recollect::model {
namespace {

constexpr kernels::ScratchName kBlockRows, kQuestionRows, kAsking, kAsked, kMixed, kOut;

constexpr float kIdfUnit = 8, kWeightUnit = 5, kLeastBlockWeight = 1e-6f;

void Widen(std::span<const Bf16> from, float* to) {
  std::ranges::transform(from, to, [](Bf16 value) { return value.ToFloat(); });
}

// Returns proj · x, each row divided by its RMS, of x[rows, proj.k()].
std::vector<Bf16> UnitRows(kernels::OpContext& ctx, const kernels::PackedMatrix& proj,
                           const float* x, int64_t rows) {
  const int64_t c = proj.n();
  float* out = ctx.Floats(kProjected, rows * c);
  kernels::Gemm(ctx, proj, x, rows, out);
  kernels::RmsNorm(ctx, out, nullptr, kAdapterNormEps, rows, c, out);
  std::vector<Bf16> unit(static_cast<size_t>(rows * c));
  std::transform(out, out + rows * c, unit.begin(), Bf16::FromFloat);
  return unit;
}

// Writes u[rows, c], what each row of block[rows, c] attends to in question[asked, c].
void Ask(kernels::OpContext& ctx, const ReaderWeights& weights, const float* block, int64_t rows,
         const float* question, int64_t asked, float* u) {
  const int64_t c = weights.ask_proj.n();
  float* asking = ctx.Floats(kAsking, rows * c);
  kernels::Gemm(ctx, weights.ask_proj, block, rows, asking);
  const kernels::RangeShape shape{.heads = 1, .kv_heads = 1, .head_dim = static_cast<int>(c)};
  kernels::RangeSet sets[kMaxChunkTokens];
  for (int64_t row = 0; row < rows; ++row) sets[row].ranges[0] = {0, asked};
  kernels::RangeAttention(ctx, shape, asking, c, rows, {kernels::KvSpan{question, question}}, sets,
                          u);
}

// The marks of a question's tokens.
class Marks {
 public:
  Marks(const Words& words, std::span<const int32_t> question) : words_(words) {
    for (const int32_t token : question) {
      const int32_t word = words.word(token);
      if (!words.text(word).empty()) asked_.insert(word);
    }
  }
  void Write(int32_t token, float weight, float* marks) const {
    const int32_t word = words_.word(token);
    const float idf = words_.idf(word) / kIdfUnit;
    const bool hit = asked_.contains(word);
    marks[0] = hit ? 1 : 0;
    marks[1] = hit ? idf : 0;
    marks[2] = idf;
    marks[3] = std::log(std::max(weight, kLeastBlockWeight)) / kWeightUnit;
  }

 private:
  const Words& words_;
  std::set<int32_t> asked_;
};

}  // namespace

Memory CpuModel::ProjectForReader(kernels::OpContext& ctx, std::span<const Bf16> states,
                                  int rows) const {
  const int64_t d = config().d, d_p = config().adapter.d_pointer, width = config().state_width();
  float* x = ctx.Floats(kRowsIn, rows * width);
  Widen(states, x);
  for (int64_t row = 0; row < rows; ++row) {
    float* const state = x + row * width;
    kernels::RmsNorm(ctx, state, nullptr, kAdapterNormEps, 1, d, state);
    kernels::RmsNorm(ctx, state + d, nullptr, kAdapterNormEps, 1, d_p, state + d);
  }
  return {.keys = {},
          .values = {},
          .reader_rows = UnitRows(ctx, weights_->adapter.reader.states_proj, x, rows),
          .rows = rows};
}

std::vector<Bf16> CpuModel::AskReader(kernels::OpContext& ctx, const float* h, int64_t rows) const {
  const int64_t d = config().d;
  const int64_t asked = std::min<int64_t>(rows, config().adapter.reader.question_tokens);
  float* normed = ctx.Floats(kNormed, asked * d);
  kernels::RmsNorm(ctx, h + (rows - asked) * d, nullptr, kAdapterNormEps, asked, d, normed);
  return UnitRows(ctx, weights_->adapter.reader.question_proj, normed, asked);
}

std::vector<TokenScores> CpuModel::ReadBlock(kernels::OpContext& ctx,
                                             const ReaderQuestion& question,
                                             const ReaderBlock& block) const {
  const ReaderWeights& weights = weights_->adapter.reader;
  const ModelConfig layers = ReaderLayers(config().adapter.reader);
  const int64_t c = layers.d, rows = std::ssize(block.tokens);
  const int64_t asked = std::ssize(question.rows) / c;
  float* own = ctx.Floats(kBlockRows, rows * c);
  float* questions = ctx.Floats(kQuestionRows, asked * c);
  float* u = ctx.Floats(kAsked, rows * c);
  Widen({block.rows, static_cast<size_t>(rows * c)}, own);
  Widen(question.rows, questions);
  Ask(ctx, weights, own, rows, questions, asked, u);

  const int64_t mixed_width = 3 * c + kReaderMarks;
  float* mixed = ctx.Floats(kMixed, rows * mixed_width);
  const Marks marks(*words(), question.tokens);
  for (int64_t row = 0; row < rows; ++row) {
    float* to = mixed + row * mixed_width;
    to = std::copy_n(own + row * c, c, to);
    to = std::copy_n(u + row * c, c, to);
    to = std::transform(own + row * c, own + (row + 1) * c, u + row * c, to, std::multiplies());
    marks.Write(block.tokens[static_cast<size_t>(row)], block.weight, to);
  }
  float* x = ctx.Floats(kRowsIn, rows * c);
  kernels::Gemm(ctx, weights.mix_proj, mixed, rows, x);
  RunEncoderLayers(ctx, {layers, dtype(), kAdapterNormEps}, weights.layers, {}, x, rows);
  float* out = ctx.Floats(kOut, rows * c);
  kernels::RmsNorm(ctx, x, weights.out_norm.data(), kAdapterNormEps, rows, c, out);

  std::vector<TokenScores> scores;
  for (const float* row = out; row < out + rows * c; row += c) {
    scores.push_back({Dot(weights.out_proj.data(), row, c) + weights.out_bias[0],
                      Dot(weights.out_proj.data() + c, row, c) + weights.out_bias[1],
                      Dot(weights.nothing_proj.data(), row, c) + weights.nothing_bias});
  }
  return scores;
}

}  // namespace recollect::model
