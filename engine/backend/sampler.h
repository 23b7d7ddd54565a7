// A request's sampling settings for the choice of its next token (kernels/sample/sample.h). The
// choice is a pure function of the logits, the settings and the token's number within its request:
// the rest of the batch cannot change it.
#pragma once

#include <cstdint>
#include <span>

#include "engine/types.h"
#include "kernels/sample/sample.h"
#include "model/config/config.h"

namespace recollect::engine {

// Returns number `index` of the random sequence of `seed`, uniform in [0, 1).
double CounterUniform(uint64_t seed, uint64_t index);

// Returns the ids that stand for no text: lmk, unk.
kernels::NeverChosen NeverChosenOf(const model::ModelConfig& config);

// Returns the id of the largest logit; ties go to the lower id. Never chooses those ids or a logit
// that is NaN. -1: there is none left.
int32_t Argmax(const model::ModelConfig& config, std::span<const float> logits);

// Returns the settings for token number `index` of a request.
kernels::SampleSettings SettingsOf(const Sampling& sampling, int64_t index);

// Applies DRY (github.com/oobabooga/text-generation-webui/pull/5677) without sequence breakers: if
// the last n >= dry_allowed_length of the `generated` tokens occurred before, followed by token t,
// logit t loses dry_multiplier * 1.75^(n - dry_allowed_length), with the greatest such n. n is at
// most dry_allowed_length + 64, where nothing is left of a logit.
void PenalizeRepetition(const Sampling& sampling, std::span<const int32_t> generated,
                        std::span<float> logits);

}  // namespace recollect::engine
