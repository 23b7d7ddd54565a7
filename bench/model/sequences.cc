#include "bench/model/sequences.h"

#include <algorithm>
#include <random>

#include "base/check.h"
#include "bench/kernels/timing.h"
#include "bench/model/touched.h"

namespace recollect::bench {

Sequences::Sequences(const model::Model& model, const model::LocalPatterns& patterns)
    : model_(model),
      states_{model::LocalState::Create(model.config(), patterns, model.config().layers())} {}

void Sequences::FillTo(int64_t length) {
  RECOLLECT_CHECK(states_.size() == 1);
  constexpr int64_t kRows = model::LayerState::kMaxAppend;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> entries(static_cast<size_t>(kRows * model_.config().inner()));
  for (float& value : entries) value = normal(generator);
  const float* made_up = entries.data();
  for (model::LayerState& layer : states_[0].layers) {
    while (layer.length() < length) {
      const int64_t rows = std::min(kRows, length - layer.length());
      if (model::ResidualCache* residual = layer.residual_cache()) {
        residual->Append(made_up, made_up, made_up, rows, model_.config().kv_width());
      } else {
        layer.Append(made_up, made_up, rows);
      }
    }
  }
}

void Sequences::SetBatch(int batch) { states_.resize(static_cast<size_t>(batch), states_[0]); }

void Sequences::Advance(int64_t rows) {
  const model::ModelConfig& config = model_.config();
  const int64_t batch = std::ssize(states_);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < batch * rows; ++i) {
    ids.push_back(static_cast<int32_t>((length() + i * 7) % config.vocab_size));
  }
  h_.resize(ids.size() * static_cast<size_t>(config.d));
  model_.Embed(ids, h_.data());
  std::vector<model::Segment> segments(states_.size());
  for (int layer = 0; layer < config.layers(); ++layer) {
    for (size_t i = 0; i < states_.size(); ++i) {
      segments[i] = {&states_[i].layers[static_cast<size_t>(layer)], rows};
    }
    model_.RunLayer(ctx_, layer, segments, h_.data());
  }
  if (rows > 1) return;
  logits_.resize(static_cast<size_t>(batch * config.vocab_size));
  model_.Logits(ctx_, h_.data(), batch, logits_.data());
}

PositionCost Sequences::Measure(int64_t rows, int samples, double seconds) {
  // Memory that grows grows here, and not on the clock.
  Advance(rows);
  PositionCost cost;
  std::vector<double> times;
  double total = 0;
  while (std::ssize(times) < samples || (total < seconds && std::ssize(times) < kMostSamples)) {
    const double begin = ThreadSeconds();
    Advance(rows);
    times.push_back(ThreadSeconds() - begin);
    total += times.back();
    cost.entries += static_cast<double>(CountEntries(states_[0]));
    cost.entries_formula += static_cast<double>(EntriesByFormula(states_[0], length() - 1));
  }
  const double count = static_cast<double>(times.size());
  cost.entries /= count;
  cost.entries_formula /= count;
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  cost.median_s = median / static_cast<double>(rows * std::ssize(states_));
  cost.spread = (times[times.size() * 3 / 4] - times[times.size() / 4]) / median;
  return cost;
}

}  // namespace recollect::bench
