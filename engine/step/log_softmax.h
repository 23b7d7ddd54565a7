// Log probabilities from the logits of one row: log p_i = l_i - m - log Σ_j exp(l_j - m), with m
// the largest logit. Sums in double, in the order of ids, so that all requests get the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/types.h"
#include "model/config/config.h"

namespace recollect::engine {

// Borrows the logits, of which there is one at least.
class LogSoftmax {
 public:
  explicit LogSoftmax(std::span<const float> logits);  // [vocab_size]

  float at(int32_t id) const;
  // The `count` likeliest, the likeliest first, ties to the lower id: the first is Argmax's choice
  // (engine/backend/sampler.h). As there, without ids that are never chosen and logits that are no
  // numbers; fewer where there are no more.
  std::vector<TokenLogprob> Likeliest(const model::ModelConfig& config, int64_t count) const;

 private:
  const std::span<const float> logits_;
  float log_sum_ = 0;  // ln of the sum over their exponentials
};

}  // namespace recollect::engine
