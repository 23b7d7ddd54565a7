#include "model/reading.h"

#include <algorithm>
#include <cmath>

namespace recollect::model {
namespace {

using BlockScores = std::vector<TokenScores>;

// ln Σ exp over "nothing" and all tokens.
double LogSum(std::span<const BlockScores> blocks, float TokenScores::*of, double nothing) {
  double most = nothing;
  for (const BlockScores& block : blocks)
    for (const TokenScores& token : block) most = std::max<double>(most, token.*of);
  double sum = std::exp(nothing - most);
  for (const BlockScores& block : blocks)
    for (const TokenScores& token : block) sum += std::exp(token.*of - most);
  return most + std::log(sum);
}

double MeanNothing(std::span<const BlockScores> blocks) {
  double sum = 0;
  size_t tokens = 0;
  for (const BlockScores& block : blocks) {
    for (const TokenScores& token : block) sum += token.nothing;
    tokens += block.size();
  }
  return sum / static_cast<double>(tokens);
}

bool Overlap(const Span& a, const Span& b) {
  return a.block == b.block && a.first <= b.last && b.first <= a.last;
}

}  // namespace

Reading MakeReading(const ReaderConfig& config, std::span<const BlockScores> scores) {
  const double nothing = MeanNothing(scores);
  const double log_sums =
      LogSum(scores, &TokenScores::begins, nothing) + LogSum(scores, &TokenScores::ends, nothing);
  std::vector<Span> all;
  for (size_t block = 0; block < scores.size(); ++block) {
    const int tokens = static_cast<int>(scores[block].size());
    for (int first = 0; first < tokens; ++first) {
      for (int last = first; last < std::min(tokens, first + config.span_tokens); ++last) {
        const double both = double{scores[block][static_cast<size_t>(first)].begins} +
                            scores[block][static_cast<size_t>(last)].ends;
        all.push_back({block, first, last, static_cast<float>(both - log_sums)});
      }
    }
  }
  Reading reading{.spans = {}, .nothing = static_cast<float>(2 * nothing - log_sums)};
  for (int i = 0; i < config.spans; ++i) {
    const Span* best = nullptr;  // the first of equal ones
    for (const Span& span : all) {
      const auto overlaps = [&](const Span& better) { return Overlap(better, span); };
      if ((best == nullptr || span.logprob > best->logprob) &&
          std::ranges::none_of(reading.spans, overlaps))
        best = &span;
    }
    if (best == nullptr) break;
    reading.spans.push_back(*best);
  }
  return reading;
}

}  // namespace recollect::model
