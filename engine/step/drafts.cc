#include "engine/step/drafts.h"

#include <algorithm>

namespace recollect::engine {
namespace {

constexpr float kMostBelowFirst = 6;  // in nats; training has no others

model::Draft Judged(const Drafts::Draft& draft) {
  model::Draft judged{.tokens = {}, .logprobs = {}, .ended = draft.ended};
  for (const ChosenLogprob& one : draft.chosen) {
    judged.tokens.push_back(one.chosen.token);
    judged.logprobs.push_back(one.chosen.logprob);
  }
  if (draft.ended) judged.tokens.pop_back();
  return judged;
}

}  // namespace

void Drafts::Begin(std::span<const TokenLogprob> likeliest, const std::vector<TokenLogprob>& top) {
  for (const TokenLogprob& token : likeliest) {
    if (token.logprob < likeliest.front().logprob - kMostBelowFirst) break;
    drafts_.push_back({.chosen = {{token, top}}});
  }
}

std::vector<Session::BranchRow> Drafts::NextRows() const {
  std::vector<Session::BranchRow> rows;
  for (size_t i = 0; i < drafts_.size(); ++i) {
    const Draft& draft = drafts_[i];
    if (!draft.ended && std::ssize(draft.chosen) < tokens())
      rows.push_back({i, draft.chosen.back().chosen.token});
  }
  return rows;
}

void Drafts::Add(size_t draft, ChosenLogprob chosen, bool ends) {
  drafts_[draft].chosen.push_back(std::move(chosen));
  drafts_[draft].ended = ends;
}

Drafts::Draft& Drafts::Best(std::span<const model::ReadBlock> blocks) {
  std::vector<model::Draft> judged;
  for (const Draft& draft : drafts_) judged.push_back(Judged(draft));
  const std::vector<double> scores = judge_.Scores(question_, blocks, judged);
  return drafts_[static_cast<size_t>(std::ranges::max_element(scores) - scores.begin())];
}

}  // namespace recollect::engine
