#include "engine/step/quotes.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "engine/session/text_stream.h"
#include "model/reranker.h"
#include "model/text/sentence.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

using Candidate = JudgedCandidates::Candidate;

constexpr size_t kLongSentence = 40;  // tokens

// A block that was read, and the tokens beside it in its document, as far as they are known.
struct Passage {
  std::span<const int32_t> before, tokens, after;
};

std::span<const int32_t> TokensOf(const Piece& piece, ChunkRef ref) {
  const auto wanted = std::ranges::find(piece.wanted, ref, &WantedChunk::ref);
  return wanted != piece.wanted.end() ? wanted->tokens() : std::span<const int32_t>();
}

// A sentence in one line, and the text before it.
struct Sentence {
  std::vector<int32_t> tokens;
  std::string before;
};

// Makes candidates of spans.
class Sentences {
 public:
  Sentences(const model::Tokenizer& tokenizer, int64_t most_tokens)
      : tokenizer_(tokenizer), most_tokens_(static_cast<size_t>(most_tokens)) {}

  // Returns the sentence around a span of the passage, cut to the most tokens; no tokens if there
  // are no words in it.
  Sentence Around(const Passage& passage, const model::Span& span) const {
    const std::string before =
        Bytes(passage.before) + Bytes(passage.tokens.first(static_cast<size_t>(span.first)));
    const std::string said = Bytes(model::TokensOf(span, passage.tokens));
    const std::string text = before + said +
                             Bytes(passage.tokens.subspan(static_cast<size_t>(span.last) + 1)) +
                             Bytes(passage.after);
    const model::TextRange part = {before.size(), before.size() + said.size()};
    const model::TextRange range = model::WithList(text, model::SentenceAround(text, part));
    return Fitting(text, range, part.begin);
  }

  std::string Text(std::span<const int32_t> tokens) const { return Utf8(Bytes(tokens)); }

 private:
  // A long sentence begins with a later clause, but not behind the place that matters.
  Sentence Fitting(std::string_view text, const model::TextRange& range, size_t place) const {
    Sentence fitting;
    for (const size_t begin : model::ClauseBegins(text, range, place)) {
      auto tokens =
          tokenizer_.Encode(model::InOneLine(Utf8(text.substr(begin, range.end - begin))));
      if (!tokens.ok() || tokens->empty()) break;
      fitting = {*std::move(tokens), Utf8(text.substr(0, begin))};
      if (fitting.tokens.size() <= std::min(kLongSentence, most_tokens_)) break;
    }
    fitting.tokens.resize(std::min(fitting.tokens.size(), most_tokens_));
    return fitting;
  }

  std::string Bytes(std::span<const int32_t> tokens) const {
    std::string bytes;
    for (const int32_t token : tokens) bytes += tokenizer_.TokenBytes(token);
    return bytes;
  }
  static std::string Utf8(std::string_view bytes) {
    TextStream stream({});
    std::string text = stream.Push(bytes);
    return text + stream.Flush();
  }

  const model::Tokenizer& tokenizer_;
  const size_t most_tokens_;
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
                               const LandmarkMemory& memory, const model::Reading& reading) {
  std::vector<Passage> passages;
  memory.ForEachRead([&](const ChunkRef& ref, const ChunkMemory& chunk, float) {
    passages.push_back({TokensOf(piece, {ref.owner, ref.index - 1}), chunk.tokens,
                        TokensOf(piece, {ref.owner, ref.index + 1})});
  });
  const Sentences sentences(*model.tokenizer(), model.judge()->config().sentence_tokens);
  const model::RerankerConfig& reranker = model.config().adapter.reranker;
  // Of a long message the end, with some words more, so that the rest is cut into the same tokens.
  const size_t asked = 2 * static_cast<size_t>(reranker.question_tokens);
  const std::string question =
      model::InOneLine(sentences.Text(piece.question.last(std::min(piece.question.size(), asked))));
  FoundCandidates found;
  const auto add = [&](model::Candidate candidate, const model::SentenceInContext& text) {
    found.candidates.push_back(std::move(candidate));
    if (reranker.exists())
      found.texts.push_back(model::RerankerTokens(*model.tokenizer(), reranker, text, question));
  };
  for (const model::Span& span : reading.spans) {  // the likeliest first
    Sentence one = sentences.Around(passages[span.block], span);
    const bool is_new = std::ranges::find(found.candidates, one.tokens,
                                          &model::Candidate::tokens) == found.candidates.end();
    if (one.tokens.empty() || !is_new) continue;
    const std::string text = sentences.Text(one.tokens);
    add({std::move(one.tokens), static_cast<int64_t>(span.block), span.logprob},
        {one.before, text});
  }
  if (!found.candidates.empty())
    add({.tokens = {}, .block = model::Candidate::kOwnWords}, {"", model::kNoDocument});
  return found;
}

JudgedCandidates JudgeCandidates(const model::Model& model, const Piece& piece,
                                 const LandmarkMemory& memory, float unneeded, float nothing,
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

  const Sentences sentences(*model.tokenizer(), judge.config().sentence_tokens);
  const std::vector<double> scores =
      judge.Scores({piece.question, blocks, unneeded, nothing}, candidates);
  for (size_t i = 0; i < candidates.size(); ++i) {
    model::Candidate& one = candidates[i];
    std::string text = sentences.Text(one.tokens);
    judged.candidates.push_back(
        {std::move(one.tokens), std::move(text), one.block, one.logprob, one.reranked, scores[i]});
  }
  return judged;
}

bool OwnWordsAreBest(const JudgedCandidates& judged) {
  const auto best = std::ranges::max_element(judged.candidates, {}, &Candidate::score);
  return best != judged.candidates.end() && best->block == model::Candidate::kOwnWords;
}

const Candidate* BestOf(const JudgedCandidates& judged, std::span<const int32_t> beginning) {
  const Candidate* best = nullptr;
  if (OwnWordsAreBest(judged)) return best;
  for (const Candidate& one : judged.candidates) {
    if (one.tokens.empty() || one.tokens.size() < beginning.size() ||
        !std::ranges::equal(std::span(one.tokens).first(beginning.size()), beginning))
      continue;
    if (best == nullptr || one.score > best->score) best = &one;
  }
  return best;
}

void AddQuote(const JudgedCandidates& judged, const Candidate& quoted, Retrieval& retrieval) {
  Hit hit = judged.blocks[static_cast<size_t>(quoted.block)];
  const auto same = std::ranges::find_if(retrieval.hits, [&](const Hit& one) {
    return one.owner == hit.owner && one.chunk == hit.chunk;
  });
  hit.quote = quoted.text;
  if (same == retrieval.hits.end()) {
    retrieval.hits.push_back(std::move(hit));
  } else {
    same->quote = std::move(hit.quote);
    same->weight = hit.weight;
  }
}

}  // namespace recollect::engine
