// The reranker of a memory adapter (docs/llama.md, "Reranker"): the base's lower layers with their
// changes read a question and sentences, and the last row of each line, of unit RMS, is scored.
#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "model/cpu/layers.h"
#include "model/state/local_state.h"

namespace recollect::model {
namespace {

constexpr kernels::ScratchName kRows;

// Rows of one layer that follow those of `state`.
void AddSegments(LayerState& state, int64_t rows, std::vector<Segment>& segments) {
  for (int64_t row = 0; row < rows; row += LayerState::kMaxAppend)
    segments.push_back({&state, std::min(rows - row, LayerState::kMaxAppend)});
}

// The tokens with which all texts begin: the question and kNoDocument, perhaps more.
std::span<const int32_t> SharedTokens(std::span<const RerankerText> texts) {
  std::span<const int32_t> shared = texts.front().tokens;
  for (const RerankerText& text : texts) {
    const auto end = std::ranges::mismatch(shared, text.tokens).in1;
    shared = shared.first(static_cast<size_t>(end - shared.begin()));
  }
  return shared;
}

}  // namespace

std::vector<std::vector<float>> CpuModel::Rerank(kernels::OpContext& ctx,
                                                 std::span<const RerankerText> texts) const {
  const RerankerWeights& weights = weights_->adapter.reranker;
  const LayerContext context = ContextOf(*this);
  const int64_t d = config().d;
  const std::span<const int32_t> shared = SharedTokens(texts);
  const int64_t shared_rows = std::ssize(shared);
  std::vector<int32_t> tokens(shared.begin(), shared.end());
  for (const RerankerText& text : texts)
    tokens.insert(tokens.end(), text.tokens.begin() + shared_rows, text.tokens.end());
  const int64_t rows = std::ssize(tokens);
  float* const h = ctx.Floats(kRows, rows * d);
  float* const h_own = h + shared_rows * d;  // of what the texts do not share, one after the other
  Embed(tokens, h);
  // The layers of a base have one pattern.
  const LayerState none =
      LocalState::Create(config(), config().local, 1, cache_dtype()).layers.front();
  for (size_t layer = 0; layer < weights.changes.size(); ++layer) {
    const LayerWeights& base = weights_->layers[layer];
    const auto mix = [&](std::span<const Segment> segments, float* x, int64_t count) {
      kernels::Add(ctx, RunMixer(ctx, context, base.mixer, segments, x, &weights.changes[layer]),
                   count * d, x);
    };
    LayerState asked = none;
    std::vector<Segment> segments;
    AddSegments(asked, shared_rows, segments);
    mix(segments, h, shared_rows);
    std::vector<LayerState> states(texts.size(), asked);
    segments.clear();
    for (size_t i = 0; i < texts.size(); ++i)
      AddSegments(states[i], std::ssize(texts[i].tokens) - shared_rows, segments);
    if (rows > shared_rows) mix(segments, h_own, rows - shared_rows);
    kernels::Add(ctx, RunFfn(ctx, context, base.ffn, h, rows), rows * d, h);
  }
  kernels::RmsNorm(ctx, h, nullptr, kAdapterNormEps, rows, d, h);
  std::vector<std::vector<float>> scores;
  const float* own = h_own;
  for (const RerankerText& text : texts) {
    std::vector<float>& of_text = scores.emplace_back();
    for (const size_t end : text.ends) {
      const auto at = static_cast<int64_t>(end);
      const float* const row = at < shared_rows ? h + at * d : own + (at - shared_rows) * d;
      of_text.push_back(Dot(weights.head.data(), row, d) + weights.bias);
    }
    own += (std::ssize(text.tokens) - shared_rows) * d;
  }
  return scores;
}

}  // namespace recollect::model
