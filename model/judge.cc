#include "model/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"

namespace recollect::model {
namespace {

constexpr size_t kAroundWords = 8;
constexpr float kTellingIdf = 3;  // of words that say what an answer is about
constexpr double kLeastLogprob = -15, kLeastShare = 1e-3;  // of spans

// Distinct words without the blank one. Ordered, so that sums have one order.
using WordSet = std::set<int32_t>;

// Words of tokens, and what they weigh.
class Vocabulary {
 public:
  explicit Vocabulary(const Words& words) : words_(words) {}

  std::vector<int32_t> Of(std::span<const int32_t> tokens) const {
    std::vector<int32_t> words;
    words.reserve(tokens.size());
    for (const int32_t token : tokens) words.push_back(words_.word(token));
    return words;
  }
  WordSet Distinct(std::span<const int32_t> words) const {
    WordSet distinct(words.begin(), words.end());
    std::erase_if(distinct, [this](int32_t word) { return words_.text(word).empty(); });
    return distinct;
  }
  std::vector<int32_t> WithoutBlanks(std::vector<int32_t> words) const {
    std::erase_if(words, [this](int32_t word) { return words_.text(word).empty(); });
    return words;
  }
  double Idf(const WordSet& set) const {
    double sum = 0;
    for (const int32_t word : set) sum += static_cast<double>(words_.idf(word));
    return sum;
  }
  double SharedIdf(const WordSet& a, const WordSet& b) const {
    double sum = 0;
    for (const int32_t word : a)
      if (b.contains(word)) sum += static_cast<double>(words_.idf(word));
    return sum;
  }
  bool ShareTelling(const WordSet& a, const WordSet& b) const {
    return std::ranges::any_of(
        a, [&](int32_t word) { return words_.idf(word) > kTellingIdf && b.contains(word); });
  }
  bool HasDigit(int32_t word) const {
    return std::ranges::any_of(words_.text(word), [](char c) {
      return absl::ascii_isdigit(static_cast<unsigned char>(c));
    });
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

// A text as the features look at it.
struct TextWords {
  TextWords(const Vocabulary& vocabulary, std::span<const int32_t> tokens)
      : words(vocabulary.Of(tokens)),
        distinct(vocabulary.Distinct(words)),
        idf(vocabulary.Idf(distinct)) {}

  std::vector<int32_t> words;
  WordSet distinct;
  double idf;
};

Run LongestRun(const TextWords& draft, std::span<const TextWords> read,
               std::span<const ReadBlock> blocks) {
  Run best;
  for (size_t i = 0; i < blocks.size(); ++i) {
    Run run = LongestRun(draft.words, read[i].words);
    run.block = i;
    if (i == 0 ||
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

using F = DraftFeature;
using Features = std::array<double, F::kCount>;

double Likely(const Draft& draft) { return std::exp(static_cast<double>(draft.logprobs.front())); }

void AddProbabilities(const Draft& draft, Features& x) {
  const std::span<const float> rest = std::span(draft.logprobs).subspan(1);
  x[F::kFirst] = static_cast<double>(draft.logprobs.front());
  x[F::kLikely] = Likely(draft);
  x[F::kRest] = std::accumulate(rest.begin(), rest.end(), 0.0);
  x[F::kMean] = Share(x[F::kRest], static_cast<double>(rest.size()));
  x[F::kTokens] = static_cast<double>(draft.tokens.size());
  x[F::kEnded] = draft.ended ? 1 : 0;
}

// What draft k has in common with the others.
void AddOthers(const Vocabulary& vocabulary, std::span<const Draft> drafts,
               std::span<const TextWords> said, size_t k, Features& x) {
  const TextWords& own = said[k];
  for (size_t j = 0; j < drafts.size(); ++j) {
    if (j == k) continue;
    const double likely = Likely(drafts[j]);
    if (vocabulary.ShareTelling(own.distinct, said[j].distinct)) x[F::kAgrees] += likely;
    x[F::kOverlap] += likely * Share(vocabulary.SharedIdf(own.distinct, said[j].distinct), own.idf);
  }
}

void AddBlock(const Vocabulary& vocabulary, const TextWords& asked, const TextWords& own,
              std::span<const TextWords> read, std::span<const ReadBlock> blocks, Features& x) {
  const Run run = LongestRun(own, read, blocks);
  const TextWords& block = read[run.block];
  x[F::kRun] = static_cast<double>(run.words);
  x[F::kWeight] = static_cast<double>(blocks[run.block].weight);
  x[F::kAround] = Share(vocabulary.SharedIdf(asked.distinct, Around(run, block.words)), asked.idf);
  x[F::kAsked] = Share(vocabulary.SharedIdf(asked.distinct, block.distinct), asked.idf);
  x[F::kDocument] = WeightOfDocument(blocks, blocks[run.block].document);
}

// A span of the reader.
struct SpanWords {
  TextWords text;
  double logprob, p;
};

std::vector<SpanWords> SpansOf(const Vocabulary& vocabulary, std::span<const ReadBlock> blocks,
                               const Reading& reading) {
  std::vector<SpanWords> spans;
  for (const Span& span : reading.spans) {
    const std::span<const int32_t> tokens = TokensOf(span, blocks[span.block].tokens);
    const auto logprob = static_cast<double>(span.logprob);
    spans.push_back(
        {TextWords(vocabulary, tokens), std::max(logprob, kLeastLogprob), std::exp(logprob)});
  }
  return spans;
}

// Whether all words of `part`, at least one, stand in `whole`, one after the other.
bool Says(const Vocabulary& vocabulary, const TextWords& whole, const TextWords& part) {
  const std::vector<int32_t> in = vocabulary.WithoutBlanks(whole.words);
  const std::vector<int32_t> said = vocabulary.WithoutBlanks(part.words);
  return !said.empty() && std::search(in.begin(), in.end(), said.begin(), said.end()) != in.end();
}

void AddSpans(const Vocabulary& vocabulary, const TextWords& own, std::span<const SpanWords> spans,
              const Reading& reading, Features& x) {
  if (spans.empty()) return;
  x[F::kNearestSpan] = -std::numeric_limits<double>::infinity();
  double says = kLeastLogprob, in = kLeastLogprob;
  for (const SpanWords& span : spans) {
    const double common = vocabulary.SharedIdf(own.distinct, span.text.distinct);
    const double of_span = Share(common, span.text.idf), of_draft = Share(common, own.idf);
    const double both = Share(2 * of_span * of_draft, of_span + of_draft);
    x[F::kSpanWords] += span.p * of_span;
    x[F::kSpanShare] += span.p * of_draft;
    x[F::kSpanBoth] += span.p * both;
    x[F::kNearestSpan] =
        std::max(x[F::kNearestSpan], span.logprob + std::log(std::max(both, kLeastShare)));
    if (Says(vocabulary, own, span.text)) {
      x[F::kSaysSpans] += span.p;
      says = std::max(says, span.logprob);
    }
    if (Says(vocabulary, span.text, own)) in = std::max(in, span.logprob);
  }
  const double best = spans.front().logprob;
  x[F::kSaysSpan] = says - best;
  x[F::kInSpan] = in - best;
  x[F::kBestSpan] = best;
  x[F::kNothing] = std::max(static_cast<double>(reading.nothing), kLeastLogprob);
}

bool BeginsWith(std::span<const int32_t> words, std::span<const int32_t> beginning) {
  return words.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), words.begin());
}

std::vector<Features> FeaturesOf(const Vocabulary& vocabulary, std::span<const int32_t> refusal,
                                 std::span<const int32_t> question,
                                 std::span<const ReadBlock> blocks, const Reading& reading,
                                 std::span<const Draft> drafts) {
  const TextWords asked(vocabulary, question);
  const std::vector<SpanWords> spans = SpansOf(vocabulary, blocks, reading);
  std::vector<TextWords> read, said;
  for (const ReadBlock& block : blocks) read.emplace_back(vocabulary, block.tokens);
  double likely_digits = 0;
  for (const Draft& draft : drafts) {
    said.emplace_back(vocabulary, draft.tokens);
    if (vocabulary.HasDigit(said.back().words.front())) likely_digits += Likely(draft);
  }
  const auto has_digit = [&](int32_t word) { return vocabulary.HasDigit(word); };
  std::vector<Features> all(drafts.size());
  for (size_t k = 0; k < drafts.size(); ++k) {
    const TextWords& own = said[k];
    Features& x = all[k];
    AddProbabilities(drafts[k], x);
    AddOthers(vocabulary, drafts, said, k, x);
    AddBlock(vocabulary, asked, own, read, blocks, x);
    AddSpans(vocabulary, own, spans, reading, x);
    x[F::kFromSpan] = drafts[k].from_span ? 1 : 0;
    x[F::kRefuses] = BeginsWith(own.words, refusal) ? 1 : 0;
    x[F::kEchoes] = Share(vocabulary.SharedIdf(own.distinct, asked.distinct), own.idf);
    x[F::kDigits] = std::ranges::any_of(own.words, has_digit) ? 1 - likely_digits : 0;
  }
  return all;
}

}  // namespace

Judge::Judge(JudgeConfig config, const Words& words, std::span<const int32_t> refusal)
    : config_(std::move(config)), words_(words), refusal_(Vocabulary(words).Of(refusal)) {}

std::vector<double> Judge::Scores(std::span<const int32_t> question,
                                  std::span<const ReadBlock> blocks, const Reading& reading,
                                  std::span<const Draft> drafts) const {
  const auto dot = [](const std::vector<double>& weights, const Features& x) {
    return std::inner_product(weights.begin(), weights.end(), x.begin(), 0.0);
  };
  std::vector<double> scores;
  for (const Features& x :
       FeaturesOf(Vocabulary(words_), refusal_, question, blocks, reading, drafts)) {
    double score = dot(config_.linear, x);
    for (const JudgeConfig::Unit& unit : config_.hidden)
      score += unit.out * std::tanh(unit.bias + dot(unit.in, x));
    scores.push_back(score);
  }
  return scores;
}

}  // namespace recollect::model
