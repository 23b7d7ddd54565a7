#include "model/judge.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"

namespace recollect::model {
namespace {

constexpr size_t kAroundWords = 8;
constexpr float kTellingIdf = 3;  // of words that say what an answer is about

// Distinct words without the blank one. Ordered, so that sums have one order.
using WordSet = std::set<int32_t>;

class Idf {
 public:
  explicit Idf(const Words& words) : words_(words) {}

  WordSet Distinct(std::span<const int32_t> words) const {
    WordSet distinct(words.begin(), words.end());
    std::erase_if(distinct, [this](int32_t word) { return words_.text(word).empty(); });
    return distinct;
  }
  double Of(const WordSet& set) const {
    double sum = 0;
    for (const int32_t word : set) sum += static_cast<double>(words_.idf(word));
    return sum;
  }
  double Shared(const WordSet& a, const WordSet& b) const {
    double sum = 0;
    for (const int32_t word : a)
      if (b.contains(word)) sum += static_cast<double>(words_.idf(word));
    return sum;
  }
  bool SharesTelling(const WordSet& a, const WordSet& b) const {
    return std::ranges::any_of(
        a, [&](int32_t word) { return words_.idf(word) > kTellingIdf && b.contains(word); });
  }

 private:
  const Words& words_;
};

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Words of a draft that stand in a block one after the other.
struct Run {
  size_t block = 0;
  size_t begin = 0, words = 0;  // in the block
};

// The longest, and of equal ones the first of the draft, then of the block.
Run LongestRun(std::span<const int32_t> draft, std::span<const int32_t> block) {
  Run best;
  std::vector<size_t> before(block.size() + 1), here(block.size() + 1);
  for (const int32_t word : draft) {
    for (size_t j = 0; j < block.size(); ++j) {
      here[j + 1] = block[j] == word ? before[j] + 1 : 0;
      if (here[j + 1] > best.words) best = {0, j + 1 - here[j + 1], here[j + 1]};
    }
    std::swap(before, here);
  }
  return best;
}

// A draft and a block as the features look at them.
struct DraftWords {
  std::vector<int32_t> words;
  WordSet distinct;
  double idf = 0, likely = 0;
};
struct BlockWords {
  std::vector<int32_t> words;
  WordSet distinct;
};

Run LongestRun(const DraftWords& draft, std::span<const BlockWords> words,
               std::span<const ReadBlock> blocks) {
  Run best;
  for (size_t i = 0; i < blocks.size(); ++i) {
    Run run = LongestRun(draft.words, words[i].words);
    run.block = i;
    const bool first = i == 0;
    if (first ||
        std::pair(run.words, blocks[i].weight) > std::pair(best.words, blocks[best.block].weight))
      best = run;
  }
  return best;
}

// The distinct words up to kAroundWords before and after the run; none where there is no run.
WordSet Around(const Run& run, std::span<const int32_t> block) {
  if (run.words == 0) return {};
  const size_t end = run.begin + run.words;
  const size_t first = run.begin - std::min(run.begin, kAroundWords);
  WordSet around(block.begin() + static_cast<int64_t>(first),
                 block.begin() + static_cast<int64_t>(run.begin));
  const size_t last = std::min(block.size(), end + kAroundWords);
  around.insert(block.begin() + static_cast<int64_t>(end),
                block.begin() + static_cast<int64_t>(last));
  return around;
}

double WeightOfDocument(std::span<const ReadBlock> blocks, int64_t document) {
  double sum = 0;
  for (const ReadBlock& block : blocks)
    if (block.document == document) sum += static_cast<double>(block.weight);
  return sum;
}

}  // namespace

Judge::Judge(JudgeConfig config, const Words& words, std::span<const int32_t> refusal)
    : config_(std::move(config)), words_(words), refusal_(WordsOf(refusal)) {}

std::vector<int32_t> Judge::WordsOf(std::span<const int32_t> tokens) const {
  std::vector<int32_t> words;
  words.reserve(tokens.size());
  for (const int32_t token : tokens) words.push_back(words_.word(token));
  return words;
}

bool Judge::HasDigit(int32_t word) const {
  return std::ranges::any_of(
      words_.text(word), [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
}

std::vector<Judge::Features> Judge::FeaturesOf(std::span<const int32_t> question,
                                               std::span<const ReadBlock> blocks,
                                               std::span<const Draft> drafts) const {
  using F = DraftFeature;
  const Idf idf(words_);
  const WordSet asked = idf.Distinct(WordsOf(question));
  const double idf_asked = idf.Of(asked);
  std::vector<BlockWords> read;
  for (const ReadBlock& block : blocks) {
    read.push_back({WordsOf(block.tokens), {}});
    read.back().distinct = idf.Distinct(read.back().words);
  }
  std::vector<DraftWords> said;
  double likely_digits = 0;
  for (const Draft& draft : drafts) {
    DraftWords words{WordsOf(draft.tokens), {}};
    words.distinct = idf.Distinct(words.words);
    words.idf = idf.Of(words.distinct);
    words.likely = std::exp(static_cast<double>(draft.logprobs.front()));
    if (HasDigit(words.words.front())) likely_digits += words.likely;
    said.push_back(std::move(words));
  }
  std::vector<Features> all(drafts.size());
  for (size_t k = 0; k < drafts.size(); ++k) {
    const Draft& draft = drafts[k];
    const DraftWords& own = said[k];
    Features& x = all[k];
    const std::span<const float> rest = std::span(draft.logprobs).subspan(1);
    x[F::kFirst] = static_cast<double>(draft.logprobs.front());
    x[F::kLikely] = own.likely;
    x[F::kRest] = std::accumulate(rest.begin(), rest.end(), 0.0);
    x[F::kMean] = Share(x[F::kRest], static_cast<double>(rest.size()));
    x[F::kTokens] = static_cast<double>(draft.tokens.size());
    x[F::kEnded] = draft.ended ? 1 : 0;
    x[F::kRefuses] = own.words.size() >= refusal_.size() &&
                             std::equal(refusal_.begin(), refusal_.end(), own.words.begin())
                         ? 1
                         : 0;
    for (size_t j = 0; j < drafts.size(); ++j) {
      if (j == k) continue;
      if (idf.SharesTelling(own.distinct, said[j].distinct)) x[F::kAgrees] += said[j].likely;
      x[F::kOverlap] += said[j].likely * Share(idf.Shared(own.distinct, said[j].distinct), own.idf);
    }
    const Run run = LongestRun(own, read, blocks);
    const BlockWords& block = read[run.block];
    x[F::kRun] = static_cast<double>(run.words);
    x[F::kWeight] = static_cast<double>(blocks[run.block].weight);
    x[F::kAround] = Share(idf.Shared(asked, Around(run, block.words)), idf_asked);
    x[F::kAsked] = Share(idf.Shared(asked, block.distinct), idf_asked);
    x[F::kEchoes] = Share(idf.Shared(own.distinct, asked), own.idf);
    x[F::kDigits] = std::ranges::any_of(own.words, [this](int32_t word) { return HasDigit(word); })
                        ? 1 - likely_digits
                        : 0;
    x[F::kDocument] = WeightOfDocument(blocks, blocks[run.block].document);
  }
  return all;
}

std::vector<double> Judge::Scores(std::span<const int32_t> question,
                                  std::span<const ReadBlock> blocks,
                                  std::span<const Draft> drafts) const {
  const auto dot = [](const std::vector<double>& weights, const Features& x) {
    return std::inner_product(weights.begin(), weights.end(), x.begin(), 0.0);
  };
  std::vector<double> scores;
  for (const Features& x : FeaturesOf(question, blocks, drafts)) {
    double score = dot(config_.linear, x);
    for (const JudgeConfig::Unit& unit : config_.hidden)
      score += unit.out * std::tanh(unit.bias + dot(unit.in, x));
    scores.push_back(score);
  }
  return scores;
}

}  // namespace recollect::model
