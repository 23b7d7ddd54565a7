// A request's sampling settings for the choice of its next token (kernels/sample/sample.h). The
// choice is a pure function of the logits, the settings and the token's number within its request:
// the rest of the batch cannot change it.
#ifndef RECOLLECT_ENGINE_BACKEND_SAMPLER_H_
#define RECOLLECT_ENGINE_BACKEND_SAMPLER_H_

#include <cstdint>
#include <span>

#include "engine/types.h"
#include "kernels/sample/sample.h"
#include "model/config/config.h"

namespace recollect::engine {

// Uniform in [0, 1): the number `index` of the sequence that `seed` names.
double CounterUniform(uint64_t seed, uint64_t index);

// The ids that mean no text: lmk, unk.
kernels::NeverChosen NeverChosenOf(const model::ModelConfig& config);

// The largest of the logits, ties to the lower id. Those ids are never chosen, nor is a logit that
// is not a number. -1: there is none left.
int32_t Argmax(const model::ModelConfig& config, std::span<const float> logits);

// Of the token number `index` of a request.
kernels::SampleSettings SettingsOf(const Sampling& sampling, int64_t index);

// DRY (github.com/oobabooga/text-generation-webui/pull/5677), without sequence breakers: the last n
// of the `generated` tokens, n >= dry_allowed_length, stood there before, and then came token t:
// logit t loses dry_multiplier * 1.75^(n - dry_allowed_length), n the greatest for t. Beyond
// dry_allowed_length + 64, where no logit is left, n is not counted.
void PenalizeRepetition(const Sampling& sampling, std::span<const int32_t> generated,
                        std::span<float> logits);

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_BACKEND_SAMPLER_H_
