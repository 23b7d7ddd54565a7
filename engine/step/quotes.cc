#include "engine/step/quotes.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/session/text_stream.h"
#include "engine/step/passages.h"
#include "model/reranker.h"
#include "model/text/sentence.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

using Candidate = JudgedCandidates::Candidate;

constexpr size_t kLongSentence = 40;  // tokens

std::string Utf8(std::string_view bytes) {
  TextStream stream({});
  std::string text = stream.Push(bytes);
  return text + stream.Flush();
}

std::string TextOf(const model::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  return Utf8(BytesOf(tokenizer, tokens));
}

// Finds the candidates of a question.
class CandidateFinder {
 public:
  CandidateFinder(const model::Model& model, std::span<const int32_t> question)
      : judge_(model.judge()->config()),
        reranker_(model.config().adapter.reranker),
        tokenizer_(*model.tokenizer()) {
    // Of a long question the end, with some words more, so that the rest is cut into the same
    // tokens.
    const size_t asked = 2 * static_cast<size_t>(reranker_.question_tokens);
    question_ =
        model::InOneLine(TextOf(tokenizer_, question.last(std::min(question.size(), asked))));
  }

  // Adds the sentences of a passage. A list that fits is one, and its items are none.
  void Add(const Passage& passage) {
    std::vector<std::string> said;
    std::vector<size_t> lines;
    size_t listed = 0;  // the end of the last such list
    for (const model::TextRange& range : model::SentencesIn(passage.text, passage.inside())) {
      const std::string_view text =
          std::string_view(passage.text).substr(range.begin, range.end - range.begin);
      if (range.begin < listed && model::IsListItem(text)) continue;
      const model::TextRange whole = model::WithList(passage.text, range);
      const bool is_list = whole.end > range.end && IsListThatFits(passage.text, whole);
      if (is_list) listed = whole.end;
      const model::TextRange& read = is_list ? whole : range;
      const auto best = std::ranges::find_if(passage.spans, [&](const PlacedSpan& one) {
        return one.range.begin < read.end && one.range.end > read.begin;
      });
      const bool has_span = best != passage.spans.end();
      const size_t place =
          std::max(range.begin, has_span && !is_list ? best->range.begin : passage.inside().begin);
      model::Candidate candidate = {.tokens = Tokens(passage.text, whole, place)};
      if (candidate.tokens.empty()) continue;
      candidate.block =
          static_cast<int64_t>(has_span ? best->span->block : passage.BlockAt(range.begin));
      if (has_span) candidate.logprob = best->span->logprob;
      said.push_back(TextOf(tokenizer_, whole.end == read.end
                                            ? candidate.tokens
                                            : Tokens(passage.text, range, place)));
      lines.push_back(NumberOf(std::move(candidate)));
    }
    if (said.empty() || !reranker_.exists()) return;
    found_.texts.push_back(model::MakeRerankerText(tokenizer_, reranker_, question_, said));
    found_.lines.push_back(std::move(lines));
  }

  // Adds the model's own words, which are the first line of each text.
  FoundCandidates Take() {
    if (found_.candidates.empty()) return {};
    const size_t own = found_.candidates.size();
    found_.candidates.push_back({.tokens = {}, .block = model::Candidate::kOwnWords});
    for (std::vector<size_t>& lines : found_.lines) lines.insert(lines.begin(), own);
    return std::move(found_);
  }

 private:
  // Whether the judge and the reranker read all of a list of `text`.
  bool IsListThatFits(std::string_view text, const model::TextRange& list) const {
    const int most = reranker_.exists()
                         ? std::min(judge_.sentence_tokens, reranker_.sentence_tokens)
                         : judge_.sentence_tokens;
    const auto tokens =
        tokenizer_.Encode(model::InOneLine(Utf8(text.substr(list.begin, list.end - list.begin))));
    return tokens.ok() && std::ssize(*tokens) <= most;
  }

  // Returns the tokens of a sentence of `text` in one line, cut to the most tokens; none if there
  // are no words in it. A long one begins with a later clause, but not behind the byte `place`.
  std::vector<int32_t> Tokens(std::string_view text, const model::TextRange& range,
                              size_t place) const {
    const auto most = static_cast<size_t>(judge_.sentence_tokens);
    std::vector<int32_t> fitting;
    for (const size_t begin : model::ClauseBegins(text, range, place)) {
      auto tokens =
          tokenizer_.Encode(model::InOneLine(Utf8(text.substr(begin, range.end - begin))));
      if (!tokens.ok() || tokens->empty()) break;
      fitting = *std::move(tokens);
      if (fitting.size() <= std::min(kLongSentence, most)) break;
    }
    fitting.resize(std::min(fitting.size(), most));
    return fitting;
  }

  // Returns where the candidate is. Of two that say the same the one with the likelier span is
  // kept.
  size_t NumberOf(model::Candidate candidate) {
    const auto same =
        std::ranges::find(found_.candidates, candidate.tokens, &model::Candidate::tokens);
    const auto number = static_cast<size_t>(same - found_.candidates.begin());
    if (same == found_.candidates.end()) {
      found_.candidates.push_back(std::move(candidate));
    } else if (candidate.logprob > same->logprob) {
      *same = std::move(candidate);
    }
    return number;
  }

  const model::JudgeConfig& judge_;
  const model::RerankerConfig& reranker_;
  const model::Tokenizer& tokenizer_;
  std::string question_;
  FoundCandidates found_;
};

void AddBlock(const Piece& piece, const ChunkRef& ref, const ChunkMemory& chunk, float weight,
              JudgedCandidates& judged) {
  Hit& hit = judged.blocks.emplace_back();
  for (const Pin& pin : piece.session->mounts())
    if (pin->info().owner == ref.owner) hit.document = pin->info().id;
  hit.owner = ref.owner;
  hit.chunk = ref.index;
  hit.weight = weight;
  std::tie(hit.text_begin, hit.text_end) = std::pair(chunk.text_begin, chunk.text_end);
}

bool BeginsWith(std::span<const int32_t> tokens, std::span<const int32_t> beginning) {
  return tokens.size() >= beginning.size() &&
         std::ranges::equal(tokens.first(beginning.size()), beginning);
}

// Returns the sentence or refusal of the largest score of those that begin with these tokens; null
// if none does, or if the model's own words are best.
const Candidate* BestOf(const JudgedCandidates& judged, std::span<const int32_t> beginning) {
  const Candidate* best = nullptr;
  if (OwnWordsAreBest({&judged, 1})) return best;
  for (const Candidate& one : judged.candidates) {
    if (one.tokens.empty() || !BeginsWith(one.tokens, beginning)) continue;
    if (best == nullptr || one.score > best->score) best = &one;
  }
  return best;
}

}  // namespace

FoundCandidates FindCandidates(const model::Model& model, const Piece& piece,
                               std::span<const int32_t> question, const LandmarkMemory& memory,
                               const model::Reading& reading) {
  const auto most = static_cast<size_t>(model.judge()->config().passage_blocks);
  CandidateFinder finder(model, question);
  for (const Passage& passage : FindPassages(*model.tokenizer(), piece, memory, reading, most))
    finder.Add(passage);
  return finder.Take();
}

void AddScores(const std::vector<std::vector<float>>& scores, FoundCandidates& found) {
  for (size_t i = scores.size(); i-- > 0;)  // of equal candidates the first counts
    for (size_t line = scores[i].size(); line-- > 0;)
      found.candidates[found.lines[i][line]].reranked = scores[i][line];
}

JudgedCandidates JudgeCandidates(const model::Model& model, const Piece& piece,
                                 std::span<const int32_t> question, const LandmarkMemory& memory,
                                 float unneeded, float nothing,
                                 std::vector<model::Candidate> candidates) {
  const model::Judge& judge = *model.judge();
  JudgedCandidates judged{.candidates = {}, .blocks = {}, .unneeded = unneeded, .nothing = nothing};
  std::vector<model::ReadBlock> blocks;
  memory.ForEachRead([&](const ChunkRef& ref, const ChunkMemory& chunk, float weight) {
    AddBlock(piece, ref, chunk, weight, judged);
    blocks.push_back({chunk.tokens, weight, static_cast<int64_t>(ref.owner)});
  });
  const auto refusal = model.tokenizer()->Encode(judge.config().refusal);
  if (refusal.ok() && !refusal->empty())
    candidates.push_back({.tokens = *refusal, .block = model::Candidate::kRefusal});

  const std::vector<double> scores =
      judge.Scores({question, blocks, unneeded, nothing}, candidates);
  for (size_t i = 0; i < candidates.size(); ++i) {
    model::Candidate& one = candidates[i];
    std::string text = TextOf(*model.tokenizer(), one.tokens);
    judged.candidates.push_back(
        {std::move(one.tokens), std::move(text), one.block, one.logprob, one.reranked, scores[i]});
  }
  return judged;
}

bool OwnWordsAreBest(std::span<const JudgedCandidates> judged) {
  return !judged.empty() && std::ranges::all_of(judged, [](const JudgedCandidates& one) {
    return std::ranges::max_element(one.candidates, {}, &Candidate::score)->block ==
           model::Candidate::kOwnWords;
  });
}

Quotes QuotesOf(const model::Tokenizer& tokenizer, std::span<const JudgedCandidates> judged,
                std::span<const int32_t> beginning) {
  Quotes quotes;
  for (const JudgedCandidates& one : judged) {
    const Candidate* best =
        BestOf(one, judged.size() == 1 ? beginning : std::span<const int32_t>());
    const auto is_in = [&](const Candidate* said) {  // a long sentence may begin with a clause
      return best != nullptr && said != nullptr && said->text.ends_with(best->text);
    };
    if (std::ranges::any_of(quotes.best, is_in)) best = nullptr;
    if (best != nullptr && quotes.tokens.empty()) {
      quotes.tokens = best->tokens;
    } else if (best != nullptr) {
      const auto more =
          tokenizer.EncodePrefix("\n" + best->text, /*final=*/true, /*base_offset=*/1);
      if (more.ok()) quotes.tokens.insert(quotes.tokens.end(), more->ids.begin(), more->ids.end());
      if (!more.ok()) best = nullptr;
    }
    quotes.best.push_back(best);
  }
  return BeginsWith(quotes.tokens, beginning) ? quotes : Quotes();
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
