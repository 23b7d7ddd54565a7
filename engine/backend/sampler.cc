#include "engine/backend/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace recollect::engine {
namespace {

constexpr double kDryBase = 1.75;   // as published
constexpr int64_t kMaxBeyond = 64;  // 1.75^64 is 4e15

// SplitMix64's finaliser: every bit of the input reaches every bit of the output.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

double CounterUniform(uint64_t seed, uint64_t index) {
  return static_cast<double>(Mix(Mix(seed) ^ index) >> 11) * 0x1.0p-53;
}

kernels::NeverChosen NeverChosenOf(const model::ModelConfig& config) {
  return {config.lmk_id, config.unk_id};
}

int32_t Argmax(const model::ModelConfig& config, std::span<const float> logits) {
  return kernels::Argmax(logits, NeverChosenOf(config));
}

kernels::SampleSettings SettingsOf(const Sampling& sampling, int64_t index) {
  constexpr int64_t kAll = std::numeric_limits<int32_t>::max();
  return {.temperature = static_cast<float>(sampling.temperature),
          .top_k = static_cast<int32_t>(std::min(sampling.top_k, kAll)),
          .top_p = sampling.top_p,
          .draw = CounterUniform(sampling.seed, static_cast<uint64_t>(index))};
}

void PenalizeRepetition(const Sampling& sampling, std::span<const int32_t> generated,
                        std::span<float> logits) {
  const int64_t size = std::ssize(generated);
  std::map<int32_t, int64_t> repeated;  // by the token that would go on with it
  for (int64_t next = 1; next < size; ++next) {
    const int64_t most = std::min(next, sampling.dry_allowed_length + kMaxBeyond);
    int64_t n = 0;
    while (n < most && generated[next - 1 - n] == generated[size - 1 - n]) ++n;
    if (n < sampling.dry_allowed_length) continue;
    int64_t& longest = repeated[generated[next]];
    longest = std::max(longest, n);
  }
  for (const auto& [token, n] : repeated) {
    const double exponent = static_cast<double>(n - sampling.dry_allowed_length);
    logits[token] -= static_cast<float>(sampling.dry_multiplier * std::pow(kDryBase, exponent));
  }
}

}  // namespace recollect::engine
