// Picks the next token from a row of logits. A pure function of the row, the settings and the
// token's number within its request: what else runs in the batch cannot change it.
#ifndef RECOLLECT_ENGINE_SAMPLER_H_
#define RECOLLECT_ENGINE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "kernels/argmax.h"
#include "model/config.h"

namespace recollect::engine {

// INVALID_ARGUMENT naming the field and its value when a setting makes no sense.
absl::Status ValidateSampling(const Sampling& sampling);

// Uniform in [0, 1): the number `index` of the sequence that `seed` names.
double CounterUniform(uint64_t seed, uint64_t index);

// The ids that mean no text: lmk, unk.
kernels::NeverChosen NeverChosenOf(const model::ModelConfig& config);

// The largest of the logits, ties to the lower id. Those ids are never chosen, nor is a logit that
// is not a number. -1: there is none left.
int32_t Argmax(const model::ModelConfig& config, std::span<const float> logits);

// One per request; reuses its memory from token to token. Not thread-safe.
class Sampler {
 public:
  Sampler(const model::ModelConfig& config, const Sampling& sampling)
      : config_(config), sampling_(sampling) {}

  // Temperature, then top-k, then top-p over what top-k left; -1: no usable logit.
  int32_t Sample(std::span<const float> logits, int64_t index);

 private:
  struct Entry {
    float logit;
    int32_t id;
    double weight;
  };
  const model::ModelConfig& config_;
  const Sampling sampling_;
  std::vector<Entry> entries_;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_SAMPLER_H_
