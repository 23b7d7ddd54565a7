#include "engine/step/quotes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/judge.h"

namespace recollect::engine {
namespace {

using Candidate = JudgedCandidates::Candidate;

bool BeginsWith(std::span<const int32_t> tokens, std::span<const int32_t> beginning) {
  return tokens.size() >= beginning.size() &&
         std::ranges::equal(tokens.first(beginning.size()), beginning);
}

// Returns the sentence or refusal of the largest score; null if the model's own words are best.
const Candidate* BestOf(const JudgedCandidates& judged) {
  const Candidate* best = nullptr;
  if (OwnWordsAreBest({&judged, 1})) return best;
  for (const Candidate& one : judged.candidates) {
    if (one.tokens.empty()) continue;
    if (best == nullptr || one.score > best->score) best = &one;
  }
  return best;
}

bool IsSaid(const Quotes& quotes, const Candidate& candidate) {
  return std::ranges::any_of(quotes.said, [&](std::span<const Candidate> said) {
    return std::ranges::any_of(said, [&](const Candidate& one) {
      return one.text.ends_with(candidate.text);  // a long sentence may begin with a clause
    });
  });
}

// Returns the best sentence with those before and behind it that the config allows and that have
// not been said, the better one first.
std::span<const Candidate> AroundBest(const model::JudgeConfig& config,
                                      const JudgedCandidates& judged, const Candidate& best,
                                      const Quotes& quotes) {
  const std::span<const Candidate> all = judged.candidates;
  auto begin = static_cast<size_t>(&best - all.data()), end = begin + 1;
  size_t tokens = best.tokens.size();
  const auto fits = [&](const Candidate& one) {
    return one.score > best.score - config.margin &&
           tokens + one.tokens.size() < static_cast<size_t>(config.sentence_tokens) &&
           !IsSaid(quotes, one);
  };
  while (true) {
    const bool before = all[begin].joint != 0 && fits(all[begin - 1]);
    const bool behind = end < all.size() && all[end].joint != 0 && fits(all[end]);
    if (!before && !behind) return all.subspan(begin, end - begin);
    if (behind && (!before || all[end].score > all[begin - 1].score))
      tokens += all[end++].tokens.size() + 1;
    else
      tokens += all[--begin].tokens.size() + 1;
  }
}

// Adds a sentence behind what joins it to those before it. Returns false if it has no tokens there.
bool Append(const model::Tokenizer& tokenizer, char joint, const Candidate& sentence,
            std::vector<int32_t>& tokens) {
  if (tokens.empty()) {
    tokens = sentence.tokens;
    return true;
  }
  const auto more = tokenizer.EncodePrefix(std::string(1, joint) + sentence.text, /*final=*/true,
                                           /*base_offset=*/1);
  if (more.ok()) tokens.insert(tokens.end(), more->ids.begin(), more->ids.end());
  return more.ok();
}

// Adds what is said to a question; none of it if not all of it has tokens.
void Say(const model::Tokenizer& tokenizer, std::span<const Candidate> said, bool in_one_line,
         Quotes& quotes) {
  std::vector<int32_t> tokens = quotes.tokens;
  for (const Candidate& one : said) {
    const char joint = &one == said.data() ? '\n' : in_one_line ? ' ' : one.joint;
    if (!Append(tokenizer, joint, one, tokens)) said = {};
    if (said.empty()) break;
  }
  if (!said.empty()) quotes.tokens = std::move(tokens);
  quotes.said.push_back(said);
}

// Returns what another server, or an earlier release, has begun to say: the best sentence, with
// those behind it, that begins with these tokens.
Quotes Begun(const model::Tokenizer& tokenizer, const JudgedCandidates& judged,
             std::span<const int32_t> beginning) {
  const std::span<const Candidate> all = judged.candidates;
  Quotes best;
  if (OwnWordsAreBest({&judged, 1})) return best;
  for (size_t first = 0; first < all.size(); ++first) {
    size_t end = first + 1;
    Quotes quotes;
    Say(tokenizer, all.subspan(first, 1), false, quotes);
    while (end < all.size() && all[end].joint != 0 && quotes.tokens.size() < beginning.size()) {
      quotes = {};
      Say(tokenizer, all.subspan(first, ++end - first), false, quotes);
    }
    const bool is_better = best.said.empty() || all[first].score > best.said.front().front().score;
    if (!quotes.tokens.empty() && BeginsWith(quotes.tokens, beginning) && is_better)
      best = std::move(quotes);
  }
  return best;
}

}  // namespace

bool OwnWordsAreBest(std::span<const JudgedCandidates> judged) {
  return !judged.empty() && std::ranges::all_of(judged, [](const JudgedCandidates& one) {
    return std::ranges::max_element(one.candidates, {}, &Candidate::score)->block ==
           model::Candidate::kOwnWords;
  });
}

Quotes QuotesOf(const model::Tokenizer& tokenizer, const model::JudgeConfig& config,
                std::span<const JudgedCandidates> judged, std::span<const int32_t> beginning) {
  const bool several = judged.size() > 1;
  Quotes quotes;
  for (const JudgedCandidates& one : judged) {
    const Candidate* const best = BestOf(one);
    std::span<const Candidate> said;
    if (best != nullptr && !IsSaid(quotes, *best)) said = AroundBest(config, one, *best, quotes);
    Say(tokenizer, said, /*in_one_line=*/several, quotes);
  }
  if (BeginsWith(quotes.tokens, beginning)) return quotes;
  return judged.size() == 1 ? Begun(tokenizer, judged.front(), beginning) : Quotes();
}

void AddQuote(const JudgedCandidates& judged, const Candidate& quoted, Retrieval& retrieval) {
  const Hit& hit = judged.blocks[static_cast<size_t>(quoted.block)];
  auto same = std::ranges::find_if(retrieval.hits, [&](const Hit& one) {
    return one.owner == hit.owner && one.chunk == hit.chunk;
  });
  if (same == retrieval.hits.end()) same = retrieval.hits.insert(same, hit);
  same->weight = hit.weight;
  absl::StrAppend(&same->quote, same->quote.empty() ? "" : "\n", quoted.text);
}

}  // namespace recollect::engine
