// The reranker of a memory adapter (docs/llama.md, "Reranker"): the base's lower layers with their
// changes read a question and sentences, and the last row of each line, of unit RMS, is scored.
#include "model/cpu/adapter_reranker.h"

#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

constexpr kernels::ScratchName kLines;

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

RerankerRun CpuModel::Rerank(std::span<const RerankerText> texts) const {
  return {*this, *weights_, texts};
}

RerankerRun::RerankerRun(const CpuModel& model, const Weights& weights,
                         std::span<const RerankerText> texts)
    : model_(model), weights_(weights) {
  const std::span<const int32_t> shared = SharedTokens(texts);
  shared_rows_ = std::ssize(shared);
  std::vector<int32_t> tokens(shared.begin(), shared.end());
  AddRows(0, shared_rows_);
  for (size_t i = 0; i < texts.size(); ++i) {
    first_rows_.push_back(std::ssize(tokens));
    tokens.insert(tokens.end(), texts[i].tokens.begin() + shared_rows_, texts[i].tokens.end());
    AddRows(1 + i, std::ssize(texts[i].tokens) - shared_rows_);
    ends_.push_back(texts[i].ends);
  }
  scores_.resize(tokens.size());
  std::vector<bool> ends_line(tokens.size());
  for (size_t i = 0; i < texts.size(); ++i)
    for (const size_t end : ends_[i]) ends_line[static_cast<size_t>(RowOf(i, end))] = true;
  for (Slice& slice : slices_)
    for (int64_t row = 0; row < slice.rows; ++row)
      if (ends_line[static_cast<size_t>(slice.first_row + row)]) slice.ends.push_back(row);
  const ModelConfig& config = model.config();
  h_.resize(tokens.size() * static_cast<size_t>(config.d));
  model.Embed(tokens, h_.data());
  // The layers of a base have one pattern.
  const LayerState none =
      LocalState::Create(config, config.local, 1, model.cache_dtype()).layers.front();
  states_.assign(weights.adapter.reranker.changes.size(), std::vector(1 + texts.size(), none));
}

void RerankerRun::AddRows(size_t state, int64_t rows) {
  int64_t first = slices_.empty() ? 0 : slices_.back().first_row + slices_.back().rows;
  for (int64_t row = 0; row < rows; row += LayerState::kMaxAppend) {
    const int64_t some = std::min(rows - row, LayerState::kMaxAppend);
    slices_.push_back({state, state > 0 && row == 0, first, some, {}});
    first += some;
  }
}

int64_t RerankerRun::RowOf(size_t text, size_t token) const {
  const auto at = static_cast<int64_t>(token);
  return at < shared_rows_ ? at : first_rows_[text] + at - shared_rows_;
}

void RerankerRun::RunLayer(kernels::OpContext& ctx, int64_t slice, int64_t layer) {
  const Slice& part = slices_[static_cast<size_t>(slice)];
  const auto at = static_cast<size_t>(layer);
  std::vector<LayerState>& states = states_[at];
  if (part.begins_text) states[part.state] = states.front();
  const LayerContext context = ContextOf(model_);
  const LayerWeights& base = weights_.layers[at];
  const int64_t d = context.config.d;
  const Segment segment{.state = &states[part.state], .rows = part.rows};
  float* const h = h_.data() + part.first_row * d;
  kernels::Add(
      ctx,
      RunMixer(ctx, context, base.mixer, {&segment, 1}, h, &weights_.adapter.reranker.changes[at]),
      part.rows * d, h);
  if (layer + 1 == layers()) return ScoreLines(ctx, part, h);
  kernels::Add(ctx, RunFfn(ctx, context, base.ffn, h, part.rows), part.rows * d, h);
}

// No other rows are needed after the last layer's attention.
void RerankerRun::ScoreLines(kernels::OpContext& ctx, const Slice& slice, const float* h) {
  const RerankerWeights& weights = weights_.adapter.reranker;
  const LayerContext context = ContextOf(model_);
  const int64_t d = context.config.d, count = std::ssize(slice.ends);
  if (count == 0) return;
  float* const lines = ctx.Floats(kLines, count * d);
  for (int64_t i = 0; i < count; ++i)
    std::copy_n(h + slice.ends[static_cast<size_t>(i)] * d, d, lines + i * d);
  const FfnWeights& ffn = weights_.layers[weights.changes.size() - 1].ffn;
  kernels::Add(ctx, RunFfn(ctx, context, ffn, lines, count), count * d, lines);
  kernels::RmsNorm(ctx, lines, nullptr, kAdapterNormEps, count, d, lines);
  for (int64_t i = 0; i < count; ++i)
    scores_[static_cast<size_t>(slice.first_row + slice.ends[static_cast<size_t>(i)])] =
        Dot(weights.head.data(), lines + i * d, d) + weights.bias;
}

std::vector<std::vector<float>> RerankerRun::Scores() const {
  std::vector<std::vector<float>> scores(ends_.size());
  for (size_t text = 0; text < ends_.size(); ++text)
    for (const size_t end : ends_[text])
      scores[text].push_back(scores_[static_cast<size_t>(RowOf(text, end))]);
  return scores;
}

}  // namespace recollect::model
