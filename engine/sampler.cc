#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace recollect::engine {
namespace {

// SplitMix64's finaliser: every bit of the input reaches every bit of the output.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool Usable(const model::ModelConfig& config, int32_t id, float logit) {
  return id != config.lmk_id && id != config.unk_id && !std::isnan(logit) &&
         logit > -std::numeric_limits<float>::infinity();
}

}  // namespace

absl::Status ValidateSampling(const Sampling& sampling) {
  if (!(sampling.temperature >= 0) || !std::isfinite(sampling.temperature)) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature: ", sampling.temperature, ", expected a finite number >= 0"));
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_p: ", sampling.top_p, ", expected a number in (0, 1]"));
  }
  if (sampling.top_k < 0) {
    return absl::InvalidArgumentError(absl::StrCat("top_k: ", sampling.top_k, ", expected >= 0"));
  }
  return absl::OkStatus();
}

double CounterUniform(uint64_t seed, uint64_t index) {
  return static_cast<double>(Mix(Mix(seed) ^ index) >> 11) * 0x1.0p-53;
}

kernels::NeverChosen NeverChosenOf(const model::ModelConfig& config) {
  return {config.lmk_id, config.unk_id};
}

int32_t Argmax(const model::ModelConfig& config, std::span<const float> logits) {
  return kernels::Argmax(logits, NeverChosenOf(config));
}

int32_t Sampler::Sample(std::span<const float> logits, int64_t index) {
  if (sampling_.temperature == 0) return Argmax(config_, logits);
  entries_.clear();
  for (int32_t id = 0; id < static_cast<int32_t>(logits.size()); ++id) {
    const float logit = logits[static_cast<size_t>(id)];
    if (Usable(config_, id, logit)) entries_.push_back({logit, id, 0});
  }
  if (entries_.empty()) return -1;
  const auto better = [](const Entry& a, const Entry& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  if (sampling_.top_k > 0 && sampling_.top_k < static_cast<int64_t>(entries_.size())) {
    std::nth_element(entries_.begin(), entries_.begin() + sampling_.top_k, entries_.end(), better);
    entries_.resize(static_cast<size_t>(sampling_.top_k));
  }
  std::sort(entries_.begin(), entries_.end(), better);
  double total = 0;
  for (Entry& entry : entries_) {
    entry.weight = std::exp((static_cast<double>(entry.logit) - entries_.front().logit) /
                            sampling_.temperature);
    total += entry.weight;
  }
  // The shortest run of best tokens that holds top_p of the weight.
  double kept = 0;
  size_t count = 0;
  while (count < entries_.size() && (count == 0 || kept < sampling_.top_p * total)) {
    kept += entries_[count++].weight;
  }
  double left = CounterUniform(sampling_.seed, static_cast<uint64_t>(index)) * kept;
  for (size_t i = 0; i < count; ++i) {
    left -= entries_[i].weight;
    if (left < 0) return entries_[i].id;
  }
  return entries_[count - 1].id;
}

}  // namespace recollect::engine
