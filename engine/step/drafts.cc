#include "engine/step/drafts.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "engine/session/text_stream.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

constexpr float kMostBelowFirst = 6;  // in nats; training has no others

model::Draft ToJudge(const Drafts::Draft& draft) {
  model::Draft judged{
      .tokens = {}, .logprobs = {}, .ended = draft.ended, .from_span = !draft.span.empty()};
  for (const ChosenLogprob& one : draft.chosen) {
    judged.tokens.push_back(one.chosen.token);
    judged.logprobs.push_back(one.chosen.logprob);
  }
  if (draft.ended) judged.tokens.pop_back();
  return judged;
}

bool BeginsWith(const Drafts::Draft& draft, std::span<const int32_t> beginning) {
  const auto token = [](const ChosenLogprob& one) { return one.chosen.token; };
  return draft.chosen.size() >= beginning.size() &&
         std::ranges::equal(std::span(draft.chosen).first(beginning.size()), beginning, {}, token);
}

std::vector<Hit> BlocksOf(const LandmarkMemory& memory, std::span<const Pin> mounts) {
  std::vector<Hit> blocks;
  memory.ForEachRead([&](const ChunkRef& ref, const ChunkMemory& chunk, float weight) {
    Hit& hit = blocks.emplace_back();
    for (const Pin& pin : mounts)
      if (pin->info().owner == ref.owner) hit.document = pin->info().id;
    hit.owner = ref.owner;
    hit.chunk = ref.index;
    hit.weight = weight;
    std::tie(hit.text_begin, hit.text_end) = std::pair(chunk.text_begin, chunk.text_end);
  });
  return blocks;
}

}  // namespace

Drafts::Drafts(const model::Model& model, std::vector<int32_t> question)
    : model_(model), question_(std::move(question)) {}

int64_t Drafts::tokens() const { return model_.judge()->config().draft_tokens; }

std::span<const int32_t> Drafts::TokensOf(const model::Span& span) const {
  return model::TokensOf(span, blocks_[span.block].tokens);
}

std::string Drafts::TextOf(std::span<const int32_t> tokens) const {
  TextStream stream({});
  std::string text;
  for (const int32_t token : tokens) text += stream.Push(model_.tokenizer()->TokenBytes(token));
  return text + stream.Flush();
}

void Drafts::Begin(const LogSoftmax& first, int64_t told, std::vector<model::ReadBlock> blocks,
                   model::Reading reading) {
  told_ = told;
  blocks_ = std::move(blocks);
  reading_ = std::move(reading);
  const std::vector<TokenLogprob> top = first.Likeliest(model_.config(), told);
  std::vector<TokenLogprob> likeliest =
      first.Likeliest(model_.config(), model_.judge()->config().drafts);
  std::erase_if(likeliest,
                [this](const TokenLogprob& one) { return model_.config().Ends(one.token); });
  for (const TokenLogprob& token : likeliest) {
    if (token.logprob < likeliest.front().logprob - kMostBelowFirst) break;
    drafts_.push_back({.chosen = {{token, top}}});
  }
  AddSpanDrafts(first, top);
}

// An answer says a span without the blanks around it.
void Drafts::AddSpanDrafts(const LogSoftmax& first, const std::vector<TokenLogprob>& top) {
  const auto most = static_cast<size_t>(model_.judge()->config().span_drafts);
  for (size_t i = 0; i < std::min(most, reading_.spans.size()); ++i) {
    const std::string text = TextOf(TokensOf(reading_.spans[i]));
    auto said = model_.tokenizer()->Encode(std::string(absl::StripAsciiWhitespace(text)));
    if (!said.ok() || said->empty() || !std::isfinite(first.at(said->front()))) continue;
    if (std::ssize(*said) > tokens()) said->resize(static_cast<size_t>(tokens()));
    const TokenLogprob token = {said->front(), first.at(said->front())};
    drafts_.push_back({.chosen = {{token, top}}, .span = *std::move(said), .spans_at = i});
  }
}

bool Drafts::complete() const {
  return std::ranges::all_of(drafts_, [this](const Draft& draft) { return complete(draft); });
}

const std::vector<Session::BranchRow>& Drafts::NextRows() {
  rows_.clear();
  for (size_t i = 0; i < drafts_.size(); ++i) {
    if (!complete(drafts_[i])) rows_.push_back({i, drafts_[i].chosen.back().chosen.token});
  }
  choices_.assign(rows_.size(), {});
  return rows_;
}

void Drafts::Choose(const HeadRow& head, std::span<const float> logits) {
  const auto row = static_cast<size_t>(head.index);
  const Draft& draft = drafts_[rows_[row].branch];
  const LogSoftmax probabilities(logits);
  std::vector<TokenLogprob> likeliest =
      probabilities.Likeliest(model_.config(), std::max<int64_t>(told_, 1));
  if (likeliest.empty()) return;
  ChosenLogprob& choice = choices_[row];
  choice.chosen = likeliest.front();
  if (draft.chosen.size() < draft.span.size()) {
    const int32_t token = draft.span[draft.chosen.size()];
    choice.chosen = {token, probabilities.at(token)};
  }
  if (told_ > 0) choice.top = std::move(likeliest);
}

absl::Status Drafts::AddChoices() {
  for (size_t row = 0; row < rows_.size(); ++row) {
    const int32_t token = choices_[row].chosen.token;
    if (token < 0) return absl::InternalError("no token can be chosen for a draft");
    Draft& draft = drafts_[rows_[row].branch];
    draft.chosen.push_back(std::move(choices_[row]));
    draft.ended = model_.config().Ends(token);
  }
  return absl::OkStatus();
}

const Drafts::Draft* Drafts::Best(std::span<const int32_t> beginning) {
  std::vector<model::Draft> judged;
  for (const Draft& draft : drafts_) judged.push_back(ToJudge(draft));
  const std::vector<double> scores = model_.judge()->Scores(question_, blocks_, reading_, judged);
  const Draft* best = nullptr;
  for (size_t i = 0; i < drafts_.size(); ++i) {
    drafts_[i].score = scores[i];
    if (BeginsWith(drafts_[i], beginning) && (best == nullptr || scores[i] > best->score))
      best = &drafts_[i];
  }
  return best;
}

Hit Drafts::Quoted(const Draft& draft, const LandmarkMemory& memory,
                   std::span<const Pin> mounts) const {
  const model::Span& span = reading_.spans[draft.spans_at];
  Hit hit = BlocksOf(memory, mounts)[span.block];
  hit.quote = TextOf(TokensOf(span));
  absl::StripAsciiWhitespace(&hit.quote);
  return hit;
}

JudgedDrafts Drafts::Judged(const LandmarkMemory& memory, std::span<const Pin> mounts) const {
  JudgedDrafts judged{
      .drafts = {}, .blocks = BlocksOf(memory, mounts), .spans = {}, .nothing = reading_.nothing};
  for (const Draft& draft : drafts_) {
    JudgedDrafts::Draft& one = judged.drafts.emplace_back();
    for (const ChosenLogprob& token : draft.chosen) one.tokens.push_back(token.chosen);
    one.text = TextOf(ToJudge(draft).tokens);
    one.ended = draft.ended;
    one.from_span = !draft.span.empty();
    one.score = draft.score;
  }
  for (const model::Span& span : reading_.spans) {
    const std::span<const int32_t> tokens = TokensOf(span);
    judged.spans.push_back({.block = static_cast<int64_t>(span.block),
                            .tokens = {tokens.begin(), tokens.end()},
                            .text = TextOf(tokens),
                            .logprob = span.logprob});
  }
  return judged;
}

}  // namespace recollect::engine
