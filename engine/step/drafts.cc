#include "engine/step/drafts.h"

#include <algorithm>
#include <utility>

namespace recollect::engine {
namespace {

constexpr float kMostBelowFirst = 6;  // in nats; training has no others

}  // namespace

Drafts::Next Drafts::Begin(const ChosenLogprob& first, std::span<const TokenLogprob> likeliest) {
  for (const TokenLogprob& token : likeliest) {
    if (token.logprob < likeliest.front().logprob - kMostBelowFirst) break;
    Draft draft;
    draft.tokens = {token.token};
    draft.logprobs = {token.logprob};
    draft.told = {{token, first.top}};
    drafts_.push_back(std::move(draft));
  }
  return {drafts_.front().tokens.front(), true};
}

std::optional<Drafts::Next> Drafts::Add(const ChosenLogprob& chosen, bool ends) {
  Draft& draft = drafts_[running_];
  draft.logprobs.push_back(chosen.chosen.logprob);
  draft.told.push_back(chosen);
  draft.ended = ends;
  if (!ends) draft.tokens.push_back(chosen.chosen.token);
  if (!ends && std::ssize(draft.tokens) < tokens()) return Next{draft.tokens.back()};
  if (++running_ == drafts_.size()) return std::nullopt;
  return Next{drafts_[running_].tokens.front(), true};
}

Drafts::Draft& Drafts::Best(std::span<const model::ReadBlock> blocks) {
  const std::vector<model::Draft> judged(drafts_.begin(), drafts_.end());
  const std::vector<double> scores = judge_.Scores(question_, blocks, judged);
  return drafts_[static_cast<size_t>(std::ranges::max_element(scores) - scores.begin())];
}

}  // namespace recollect::engine
