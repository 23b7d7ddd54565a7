#include "engine/step/log_softmax.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise/elementwise.h"

namespace recollect::engine {

LogSoftmax::LogSoftmax(std::span<const float> logits) : logits_(logits) {
  kernels::OpContext ctx;
  log_sum_ = kernels::LogSumExp(ctx, logits.data(), std::ssize(logits));
}

float LogSoftmax::at(int32_t id) const { return logits_[static_cast<size_t>(id)] - log_sum_; }

std::vector<TokenLogprob> LogSoftmax::Likeliest(const model::ModelConfig& config,
                                                int64_t count) const {
  std::vector<int32_t> best;  // ordered; few, so each is put into its place
  if (count == 0) return {};
  const auto larger = [this](int32_t a, int32_t b) {
    return logits_[static_cast<size_t>(a)] > logits_[static_cast<size_t>(b)];
  };
  for (int32_t id = 0; id < static_cast<int32_t>(logits_.size()); ++id) {
    const float logit = logits_[static_cast<size_t>(id)];
    if (id == config.lmk_id || id == config.unk_id || !(logit > -INFINITY)) continue;
    if (std::ssize(best) == count) {
      if (!larger(id, best.back())) continue;
      best.pop_back();
    }
    best.insert(std::upper_bound(best.begin(), best.end(), id, larger), id);
  }
  std::vector<TokenLogprob> likeliest;
  likeliest.reserve(best.size());
  for (const int32_t id : best) likeliest.push_back({id, at(id)});
  return likeliest;
}

}  // namespace recollect::engine
