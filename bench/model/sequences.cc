#include "bench/model/sequences.h"

#include <algorithm>
#include <random>

#include "base/check.h"
#include "bench/kernels/timing.h"

namespace recollect::bench {

Sequences::Sequences(const model::CpuModel& model, const model::LocalPatterns& patterns)
    : model_(model),
      states_{model::LocalState::Create(model.config(), patterns, model.config().layers())} {}

void Sequences::FillTo(int64_t length) {
  RECOLLECT_CHECK(states_.size() == 1);
  constexpr int64_t kRows = model::LayerState::kMaxAppend;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  // Another stretch of it at every call, so that blocks differ where queries choose among them.
  constexpr int64_t kStretches = 997;
  std::vector<float> entries(static_cast<size_t>(kRows * model_.config().inner() + kStretches));
  for (float& value : entries) value = normal(generator);
  for (model::LayerState& layer : states_[0].layers) {
    while (layer.length() < length) {
      const float* made_up = entries.data() + layer.length() % kStretches;
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

void Sequences::Advance(int64_t rows, bool landmark) {
  const model::ModelConfig& config = model_.config();
  const int64_t batch = std::ssize(states_);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < batch * rows; ++i) {
    ids.push_back(static_cast<int32_t>((length() + i * 7) % config.vocab_size));
  }
  h_.resize(ids.size() * static_cast<size_t>(config.d));
  model_.Embed(ids, h_.data());
  retrieved_.resize(states_.size(), std::vector<model::Retrieved>(config.groups.size()));
  std::vector<model::Segment> segments;
  int group = -1;  // none of the lower layers
  for (int layer = 0; layer < config.layers(); ++layer) {
    const bool begins =
        group + 1 < std::ssize(config.groups) && layer == config.first_layer_of_group(group + 1);
    if (begins) ++group;
    segments.clear();
    for (size_t i = 0; i < states_.size(); ++i) {
      model::Retrieved* retrieved =
          group < 0 ? nullptr : &retrieved_[i][static_cast<size_t>(group)];
      if (begins && landmark) {
        const float* h = h_.data() + static_cast<int64_t>(i) * rows * config.d;
        *retrieved = mounted_->Retrieve(ctx_, group, h);
      }
      for (int64_t left = rows; left > 0; left -= model::LayerState::kMaxAppend) {
        segments.push_back({&states_[i].layers[static_cast<size_t>(layer)],
                            std::min(left, model::LayerState::kMaxAppend), retrieved});
      }
    }
    model_.RunLayer(ctx_, layer, segments, h_.data());
  }
  if (rows > 1) return;
  logits_.resize(static_cast<size_t>(batch * config.vocab_size));
  model_.Logits(ctx_, h_.data(), batch, logits_.data());
}

void Sequences::AddTouched(PositionCost& cost) const {
  const model::ModelConfig& config = model_.config();
  cost.counted.Add(CountState(config, states_[0]));
  cost.formula.Add(StateByFormula(config, states_[0], length() - 1));
  if (mounted_ == nullptr) return;
  for (size_t group = 0; group < config.groups.size(); ++group) {
    cost.counted.memory += static_cast<double>(config.groups[group].gca_layers.size()) *
                           CountMemory(config, retrieved_[0][group]);
  }
  cost.formula.memory += MemoryByFormula(config, mounted_->chunks(), mounted_->rows());
}

PositionCost Sequences::Measure(int64_t rows, int samples, double seconds) {
  const bool blocks = mounted_ != nullptr;
  const int64_t tokens = blocks ? model_.config().chunk_tokens : rows;  // of a sample
  const int64_t positions = blocks ? tokens + 1 : rows;
  const int64_t step = rows == 1 ? 1 : positions;  // of a call
  // Memory that grows grows here, and not on the clock.
  Advance(step, blocks);
  PositionCost cost;
  std::vector<double> times;
  double total = 0;
  while (std::ssize(times) < samples || (total < seconds && std::ssize(times) < kMaxSamples)) {
    double& time = times.emplace_back(0);
    for (int64_t done = 0; done < positions; done += step) {
      const double begin = ThreadSeconds();
      Advance(step, blocks && done == 0);
      time += ThreadSeconds() - begin;
      AddTouched(cost);
    }
    total += time;
  }
  for (Touched* touched : {&cost.counted, &cost.formula}) {
    touched->Scale(static_cast<double>(step) / static_cast<double>(std::ssize(times) * tokens));
    if (blocks) {
      touched->keys = static_cast<double>(std::ssize(model_.config().groups) * mounted_->chunks()) /
                      static_cast<double>(tokens);
    }
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  cost.median_s = median / static_cast<double>(tokens * std::ssize(states_));
  cost.spread = (times[times.size() * 3 / 4] - times[times.size() / 4]) / median;
  return cost;
}

}  // namespace recollect::bench
