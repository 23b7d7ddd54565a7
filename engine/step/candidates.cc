#include "engine/step/candidates.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "engine/session/text_stream.h"
#include "engine/step/passages.h"
#include "model/text/sentence.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

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

  // Adds the sentences of a passage. A list that fits is one, and its items with marks are none.
  void Add(const Passage& passage) {
    std::vector<std::string> said;
    std::vector<size_t> lines;
    size_t listed = 0;          // the end of the last such list
    model::TextRange followed;  // the last candidate, if another one may follow it
    for (const model::TextRange& range : model::SentencesIn(passage.text, passage.inside())) {
      const std::string_view text =
          std::string_view(passage.text).substr(range.begin, range.end - range.begin);
      if (range.begin < listed && model::IsListItem(text)) continue;
      model::TextRange whole = model::WithList(passage.text, range);
      const bool is_list = whole.end > range.end && IsListThatFits(passage.text, whole);
      if (is_list)
        listed = whole.end;
      else if (!BringsListWithMarks(passage.text, range))
        whole = range;
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
      const bool is_whole = IsWhole(passage.text, whole, candidate.tokens);
      if (is_whole && followed.end > 0)
        candidate.joint = model::JointOf(passage.text, followed, range);
      const size_t before = found_.candidates.size();
      lines.push_back(NumberOf(std::move(candidate)));
      followed = is_whole && found_.candidates.size() > before ? whole : model::TextRange();
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
  static std::string Line(std::string_view text, size_t begin, size_t end) {
    return model::InOneLine(Utf8(text.substr(begin, end - begin)));
  }

  // Whether what WithList adds to a sentence is said even if it is too long to be read whole: lines
  // with labels need no heading.
  static bool BringsListWithMarks(std::string_view text, const model::TextRange& sentence) {
    const size_t last = text.substr(0, sentence.end).find_last_not_of(" \t\r\n");
    return (last != std::string_view::npos && text[last] == ':') ||
           model::IsListItem(text.substr(sentence.end));
  }

  // Whether the judge and the reranker read all of a list of `text`.
  bool IsListThatFits(std::string_view text, const model::TextRange& list) const {
    const int most = reranker_.exists()
                         ? std::min(judge_.sentence_tokens, reranker_.sentence_tokens)
                         : judge_.sentence_tokens;
    const auto tokens = tokenizer_.Encode(Line(text, list.begin, list.end));
    return tokens.ok() && std::ssize(*tokens) <= most;
  }

  // Returns the tokens of a sentence of `text` in one line, cut to the most tokens; none if there
  // are no words in it. A long one begins with a later clause, but not behind the byte `place`.
  std::vector<int32_t> Tokens(std::string_view text, const model::TextRange& range,
                              size_t place) const {
    const auto most = static_cast<size_t>(judge_.sentence_tokens);
    std::vector<int32_t> fitting;
    for (const size_t begin : model::ClauseBegins(text, range, place)) {
      auto tokens = tokenizer_.Encode(Line(text, begin, range.end));
      if (!tokens.ok() || tokens->empty()) break;
      fitting = *std::move(tokens);
      if (fitting.size() <= std::min(kLongSentence, most)) break;
    }
    fitting.resize(std::min(fitting.size(), most));
    return fitting;
  }

  // Whether a sentence of `text` has these tokens, and not only a part of it.
  bool IsWhole(std::string_view text, const model::TextRange& range,
               std::span<const int32_t> tokens) const {
    const auto all = tokenizer_.Encode(Line(text, range.begin, range.end));
    return all.ok() && std::ranges::equal(*all, tokens);
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
      // It is cited from another place, where other sentences are beside it.
      if (number + 1 < found_.candidates.size()) found_.candidates[number + 1].joint = 0;
      candidate.joint = 0;
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
    judged.candidates.push_back({std::move(one.tokens), std::move(text), one.block, one.logprob,
                                 one.reranked, scores[i], one.joint});
  }
  return judged;
}

}  // namespace recollect::engine
