#include "http/api/generation.h"

#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "base/status.h"
#include "http/api/encode.h"
#include "http/net/errors.h"

namespace recollect::http {
namespace {

using nlohmann::json;

// Without a stream: an answer has no more of them than some megabytes hold.
constexpr int64_t kMaxHits = 1 << 16;

const char* Name(engine::FinishReason reason) {
  return reason == engine::FinishReason::kMaxTokens ? "length" : "stop";
}

// The member `saved` of an answer: {"id", "tokens", "chunks", "bytes", "sha256"} of what was saved;
// else {"id", "error"}, as in the answers to requests that fail.
json EncodeSaved(const std::string& id, const absl::StatusOr<store::DocumentInfo>& document) {
  json saved = {{"id", id}};
  if (document.ok()) {
    saved.update({{"tokens", document->tokens},
                  {"chunks", document->chunks},
                  {"bytes", document->bytes},
                  {"sha256", document->sha256}});
  } else {
    saved.update(json::parse(ErrorJson(document.status())));
  }
  return saved;
}

}  // namespace

Generation::Generation(Runtime& runtime, GenerationRequest request,
                       std::shared_ptr<Choices> choices, int64_t index)
    : runtime_(runtime),
      request_(std::move(request)),
      choices_(std::move(choices)),
      index_(index) {}

absl::Status Generation::Start() {
  RETURN_IF_ERROR(PrepareLogprobs());
  Generate();
  return absl::OkStatus();
}

absl::Status Generation::PrepareLogprobs() {
  if (!request_.generate.logprobs.has_value()) return absl::OkStatus();
  const model::Tokenizer* const tokenizer = runtime_.options.tokenizer;
  if (tokenizer == nullptr)
    return absl::InvalidArgumentError("logprobs: the model has no tokenizer");
  logprobs_.emplace(*tokenizer, *request_.generate.logprobs);
  return absl::OkStatus();
}

void Generation::Generate() {
  choices_->Follow(runtime_.engine.Generate(request_.generate, shared_from_this()));
}

absl::Status Generation::AddToEnd(json&, const engine::Usage&) { return absl::OkStatus(); }

// Writing megabytes of numbers would hold the engine's thread up.
bool Generation::EndsSlowly() const { return logprobs_.has_value() && !request_.stream; }

json Generation::Choice(json choice, const json& reason) const {
  choice["index"] = index_;
  choice["finish_reason"] = reason;
  return choice;
}

// OpenAI's API has no reason of its own for an answer that only repeats itself.
json Generation::LastChoice(json choice, const char* reason, const engine::Usage& usage) const {
  json last = Choice(std::move(choice), reason);
  if (usage.repeats_from > 0) last["repeats_from"] = usage.repeats_from;
  return last;
}

// Of several choices it says whose it is.
json Generation::OfChoice(json retrieval) const {
  if (choices_->count() > 1) retrieval["choice"] = index_;
  return retrieval;
}

void Generation::Open() {
  if (!request_.stream || std::exchange(begun_, true)) return;
  json opening = Opening();
  if (!opening.is_null()) choices_->Send(Choice(std::move(opening), nullptr));
}

void Generation::OnTokens(const std::vector<int32_t>&, const std::string& text) {
  if (!request_.stream) {
    text_ += text;
  } else if (!text.empty() || logprobs_.has_value()) {
    Open();
    choices_->Send(Choice(Further(text), nullptr));
  }
}

void Generation::OnLogprobs(const engine::ChosenLogprob& token) {
  Open();  // its choice takes what it has of the prompt's
  logprobs_->Add(token.chosen.token, token.chosen.logprob, token.top);
}

void Generation::OnRetrieval(const engine::Retrieval& retrieval) {
  if (!request_.show_retrievals) return;
  if (request_.stream) {
    Open();
    return choices_->Send(nullptr, {{"retrieval", OfChoice(Encode(retrieval))}});
  }
  hits_ += std::ssize(retrieval.hits);
  if (hits_ <= kMaxHits / choices_->count()) {
    retrievals_.push_back(OfChoice(Encode(retrieval)));
  } else {
    ++left_out_;
  }
}

void Generation::OnSaved(const absl::StatusOr<store::DocumentInfo>& document) {
  saved_ = EncodeSaved(request_.generate.save_as->id, document);
}

void Generation::OnDone(engine::FinishReason reason, const engine::Usage& usage) {
  if (!EndsSlowly()) return EndIfError(Finish(reason, usage));
  runtime_.Continue([self = shared_from_this(), reason, usage] {
    self->EndIfError(OrExhausted("an answer", [&] { return self->Finish(reason, usage); }));
  });
}

absl::Status Generation::Finish(engine::FinishReason reason, const engine::Usage& usage) {
  return request_.stream ? FinishStream(Name(reason), usage) : FinishWhole(Name(reason), usage);
}

absl::Status Generation::FinishStream(const char* reason, const engine::Usage& usage) {
  Open();
  json beside = json::object();
  if (!saved_.is_null()) beside["saved"] = std::move(saved_);
  RETURN_IF_ERROR(AddToEnd(beside, usage));
  choices_->Send(LastChoice(Further(""), reason, usage), beside);
  choices_->End(index_, nullptr, json::object(), usage);
  return absl::OkStatus();
}

absl::Status Generation::FinishWhole(const char* reason, const engine::Usage& usage) {
  json beside = json::object();
  if (request_.show_retrievals)
    beside = {{"retrievals", std::move(retrievals_)}, {"retrievals_left_out", left_out_}};
  if (!saved_.is_null()) beside["saved"] = std::move(saved_);
  RETURN_IF_ERROR(AddToEnd(beside, usage));
  if (usage.repeats_from > 0)
    text_.resize(std::min(text_.size(), static_cast<size_t>(usage.repeats_from)));
  choices_->End(index_, LastChoice(Whole(text_), reason, usage), beside, usage);
  return absl::OkStatus();
}

void Generation::OnError(const absl::Status& status) { choices_->Fail(status); }

void Generation::EndIfError(const absl::Status& status) {
  if (!status.ok()) choices_->Fail(status);
}

}  // namespace recollect::http
