#include "model/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace recollect::model {
namespace {

constexpr double kMostLogOdds = 15;

// Distinct words without the blank one. Ordered, so that sums have one order.
using WordSet = std::set<int32_t>;

WordSet WordsOf(const Words& words, std::span<const int32_t> tokens) {
  WordSet set;
  for (const int32_t token : tokens)
    if (const int32_t word = words.word(token); !words.text(word).empty()) set.insert(word);
  return set;
}

// The share of the question's idf that its words in `tokens` have.
double Asked(const Words& words, const WordSet& question, std::span<const int32_t> tokens) {
  const WordSet there = WordsOf(words, tokens);
  double shared = 0, whole = 0;
  for (const int32_t word : question) {
    const auto idf = static_cast<double>(words.idf(word));
    whole += idf;
    if (there.contains(word)) shared += idf;
  }
  return whole > 0 ? shared / whole : 0;
}

using F = CandidateFeature;
using Features = std::array<double, F::kCount>;

template <typename Belongs>
double WeightOf(std::span<const ReadBlock> blocks, const Belongs& belongs) {
  double sum = 0;
  for (const ReadBlock& block : blocks)
    if (belongs(block)) sum += static_cast<double>(block.weight);
  return sum;
}

double AtLeast(float logprob) { return static_cast<double>(std::max(logprob, Candidate::kNoSpan)); }

double LogOdds(float probability) {
  const auto p = static_cast<double>(probability);
  return std::clamp(std::log(p) - std::log1p(-p), -kMostLogOdds, kMostLogOdds);
}

void AddOther(std::span<const ReadBlock> blocks, const Candidate& candidate, Features& x) {
  x[candidate.block == Candidate::kOwnWords ? F::kOwnWords : F::kRefuses] = 1;
  x[F::kWeight] = WeightOf(blocks, [](const ReadBlock&) { return true; });
  x[F::kReranked] = static_cast<double>(candidate.reranked);
}

void AddSentence(const Words& words, const WordSet& question, std::span<const ReadBlock> blocks,
                 const Candidate& sentence, Features& x) {
  const ReadBlock& block = blocks[static_cast<size_t>(sentence.block)];
  x[F::kWeight] = static_cast<double>(block.weight);
  x[F::kDocument] =
      WeightOf(blocks, [&](const ReadBlock& one) { return one.document == block.document; });
  x[F::kAsked] = Asked(words, question, sentence.tokens);
  x[F::kBlock] = Asked(words, question, block.tokens);
  x[F::kSpan] = AtLeast(sentence.logprob);
  x[F::kWords] = static_cast<double>(WordsOf(words, sentence.tokens).size());
  x[F::kReranked] = static_cast<double>(sentence.reranked);
}

}  // namespace

Judge::Judge(JudgeConfig config, const Words& words) : config_(std::move(config)), words_(words) {}

std::vector<double> Judge::Scores(const Evidence& evidence,
                                  std::span<const Candidate> candidates) const {
  const auto dot = [](const std::vector<double>& weights, const Features& x) {
    // Without a reranker there are weights of the first features alone.
    return std::inner_product(weights.begin(), weights.end(), x.begin(), 0.0);
  };
  const WordSet asked = WordsOf(words_, evidence.question);
  float best = Candidate::kNoSpan, best_reranked = -std::numeric_limits<float>::infinity();
  for (const Candidate& candidate : candidates) {
    if (!candidate.is_sentence()) continue;
    best = std::max(best, candidate.logprob);
    best_reranked = std::max(best_reranked, candidate.reranked);
  }
  std::vector<double> scores;
  for (const Candidate& candidate : candidates) {
    Features x = {};
    x[F::kUnneeded] = LogOdds(evidence.unneeded);
    x[F::kNothing] = AtLeast(evidence.nothing);
    x[F::kBest] = best;
    x[F::kBestReranked] = static_cast<double>(best_reranked);
    if (candidate.is_sentence())
      AddSentence(words_, asked, evidence.blocks, candidate, x);
    else
      AddOther(evidence.blocks, candidate, x);
    double score = dot(config_.linear, x);
    for (const JudgeConfig::Unit& unit : config_.hidden)
      score += unit.out * std::tanh(unit.bias + dot(unit.in, x));
    scores.push_back(score);
  }
  return scores;
}

}  // namespace recollect::model
