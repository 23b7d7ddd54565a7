// The reranker of a memory adapter (docs/llama.md, "Reranker"): the base's lower layers with their
// changes read a sentence and a question, and the last row, of unit RMS, is scored.
#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "model/cpu/layers.h"
#include "model/state/local_state.h"

namespace recollect::model {
namespace {

constexpr kernels::ScratchName kRows;

// A text's rows of one layer.
void AddSegments(LayerState& state, int64_t rows, std::vector<Segment>& segments) {
  for (int64_t row = 0; row < rows; row += LayerState::kMaxAppend)
    segments.push_back({&state, std::min(rows - row, LayerState::kMaxAppend)});
}

}  // namespace

std::vector<float> CpuModel::Rerank(kernels::OpContext& ctx,
                                    std::span<const std::vector<int32_t>> texts) const {
  const RerankerWeights& weights = weights_->adapter.reranker;
  const LayerContext context = ContextOf(*this);
  const int64_t d = config().d;
  std::vector<int32_t> tokens;
  for (const std::vector<int32_t>& text : texts)
    tokens.insert(tokens.end(), text.begin(), text.end());
  const int64_t rows = std::ssize(tokens);
  float* const h = ctx.Floats(kRows, rows * d);
  Embed(tokens, h);
  const auto layers = static_cast<int>(weights.mixers.size());
  std::vector<LocalState> states(
      texts.size(), LocalState::Create(config(), config().local, layers, cache_dtype()));
  for (size_t layer = 0; layer < weights.mixers.size(); ++layer) {
    std::vector<Segment> segments;
    for (size_t i = 0; i < texts.size(); ++i)
      AddSegments(states[i].layers[layer], std::ssize(texts[i]), segments);
    const auto add = [&](const float* delta) { kernels::Add(ctx, delta, rows * d, h); };
    add(RunMixer(ctx, context, weights.mixers[layer], segments, h));
    add(RunFfn(ctx, context, weights_->layers[layer].ffn, h, rows));
  }
  std::vector<float> scores;
  float* end = h;
  for (const std::vector<int32_t>& text : texts) {
    end += std::ssize(text) * d;
    float* const last = end - d;
    kernels::RmsNorm(ctx, last, nullptr, kAdapterNormEps, 1, d, last);
    scores.push_back(Dot(weights.head.data(), last, d) + weights.bias);
  }
  return scores;
}

}  // namespace recollect::model
