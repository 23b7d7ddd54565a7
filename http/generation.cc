#include "http/generation.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "http/encode.h"
#include "http/errors.h"
#include "http/json.h"

namespace recollect::http {
namespace {

using nlohmann::json;

// Without a stream: an answer has no more of them than some megabytes hold.
constexpr int64_t kMaxHits = 1 << 16;

const char* Name(engine::FinishReason reason) {
  return reason == engine::FinishReason::kMaxTokens ? "length" : "stop";
}

std::string NextId(const char* prefix) {
  static std::atomic<int64_t> next{1};
  return absl::StrCat(prefix, "-", absl::ToUnixMillis(absl::Now()), "-", next.fetch_add(1));
}

}  // namespace

Generation::Generation(Runtime& runtime, const Names& names, GenerationRequest request,
                       std::shared_ptr<Answer> answer)
    : runtime_(runtime),
      names_(names),
      model_(runtime.options.model_name),
      request_(std::move(request)),
      answer_(std::move(answer)),
      created_(absl::ToUnixSeconds(absl::Now())),
      id_(NextId(names.id)) {}

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
  CancelWhenGone(runtime_.engine.Generate(request_.generate, shared_from_this()));
}

void Generation::CancelWhenGone(const std::shared_ptr<engine::RequestHandle>& handle) {
  answer_->OnGone([handle] { handle->Cancel(); });
}

absl::Status Generation::AddToEnd(json&, const engine::Usage&) { return absl::OkStatus(); }

// Writing megabytes of numbers would hold the engine's thread up.
bool Generation::EndsSlowly() const { return logprobs_.has_value() && !request_.stream; }

json Generation::Event(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

json Generation::WithChoice(const char* object, json choice, const json& reason) const {
  choice["index"] = 0;
  choice["finish_reason"] = reason;
  json event = Event(object);
  event["choices"].push_back(std::move(choice));
  return event;
}

void Generation::Open() {
  if (!request_.stream || std::exchange(begun_, true)) return;
  answer_->Begin("text/event-stream");
  json opening = Opening();
  if (!opening.is_null()) Send(WithChoice(names_.event, std::move(opening), nullptr));
}

// Where the usage is asked for, OpenAI's API has null for it in all events but the last.
void Generation::Send(json event) {
  if (request_.include_usage) event.emplace("usage", nullptr);
  answer_->Write(absl::StrCat("data: ", Dump(event), "\n\n"));
}

void Generation::SendBeside(const char* name, json value) {
  Open();
  json event = Event(names_.event);
  event["choices"] = json::array();
  event[name] = std::move(value);
  Send(std::move(event));
}

void Generation::OnTokens(const std::vector<int32_t>&, const std::string& text) {
  if (!request_.stream) {
    text_ += text;
  } else if (!text.empty() || logprobs_.has_value()) {
    Open();
    Send(WithChoice(names_.event, Further(text), nullptr));
  }
}

void Generation::OnLogprobs(const engine::ChosenLogprob& token) {
  Open();  // its choice takes what it has of the prompt's
  logprobs_->Add(token.chosen.token, token.chosen.logprob, token.top);
}

void Generation::OnRetrieval(const engine::Retrieval& retrieval) {
  if (!request_.show_retrievals) return;
  if (request_.stream) return SendBeside("retrieval", Encode(retrieval));
  hits_ += std::ssize(retrieval.hits);
  if (hits_ <= kMaxHits) {
    retrievals_.push_back(Encode(retrieval));
  } else {
    ++left_out_;
  }
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
  json last = WithChoice(names_.event, Further(""), reason);
  RETURN_IF_ERROR(AddToEnd(last, usage));
  Send(std::move(last));
  if (request_.include_usage) SendBeside("usage", Encode(usage));
  answer_->Write("data: [DONE]\n\n");
  answer_->End();
  return absl::OkStatus();
}

absl::Status Generation::FinishWhole(const char* reason, const engine::Usage& usage) {
  json whole = WithChoice(names_.whole, Whole(text_), reason);
  whole["usage"] = Encode(usage);
  if (request_.show_retrievals) {
    whole["retrievals"] = std::move(retrievals_);
    whole["retrievals_left_out"] = left_out_;
  }
  RETURN_IF_ERROR(AddToEnd(whole, usage));
  SendJson(*answer_, whole);
  return absl::OkStatus();
}

void Generation::OnError(const absl::Status& status) { EndIfError(status); }

void Generation::EndIfError(const absl::Status& status) {
  if (status.ok()) return;
  if (!begun_) return SendError(*answer_, status);
  answer_->Write(absl::StrCat("data: ", ErrorJson(status), "\n\n"));
  answer_->End();
}

}  // namespace recollect::http
