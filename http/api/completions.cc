#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"
#include "http/api/choices.h"
#include "http/api/fields.h"
#include "http/api/generation.h"
#include "http/api/generation_fields.h"
#include "http/api/handlers.h"
#include "http/api/request_fields.h"
#include "model/text/tokenizer.h"

namespace recollect::http {
namespace {

using nlohmann::json;

// Each prompt is answered as if it had been sent alone.
struct CompletionRequest : GenerationRequest {
  std::vector<engine::Prompt> prompts;  // each replaces `generate.prompt`
  bool echo = false;                    // the prompt comes before the answer
};

// Decodes a request. INVALID_ARGUMENT names a field that has the wrong type, is unknown, or is in
// OpenAI's API but not in this one. NOT_FOUND: another model. PERMISSION_DENIED: a mount that
// `caller` may not use. Values are checked by the engine.
absl::StatusOr<CompletionRequest> DecodeCompletion(const std::string& body,
                                                   const ServerOptions& options,
                                                   const access::Caller& caller) {
  ASSIGN_OR_RETURN(json object, ParseObject(body));
  CompletionRequest request;
  engine::GenerateRequest& generate = request.generate;
  generate.max_tokens = 16;  // OpenAI's defaults
  generate.sampling.temperature = 1;
  generate.account = caller.account();
  RETURN_IF_ERROR(TakeModel(object, options));
  RETURN_IF_ERROR(TakePrompts(object, "prompt", request.prompts));
  RETURN_IF_ERROR(TakeSession(object, caller, generate.session_options));
  RETURN_IF_ERROR(TakeOutput(object, request));
  RETURN_IF_ERROR(TakeSampling(object, generate));
  RETURN_IF_ERROR(Take(object, "echo", "a boolean", request.echo));
  RETURN_IF_ERROR(Take(object, "logprobs", "an integer", generate.logprobs));
  RETURN_IF_ERROR(Take(object, "max_tokens", "an integer", generate.max_tokens));
  ASSIGN_OR_RETURN(generate.max_tokens, MaxTokens("max_tokens", generate.max_tokens));
  RETURN_IF_ERROR(CheckLogprobs("logprobs", request, std::ssize(request.prompts)));
  RETURN_IF_ERROR(TakeSaveAs(object, caller, generate));
  if (generate.save_as.has_value() && request.prompts.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("save_as: with ", request.prompts.size(), " prompts, expected one"));
  }
  const std::pair<const char*, json> unbuilt[] = {{"n", 1},
                                                  {"best_of", 1},
                                                  {"suffix", ""},
                                                  {"logit_bias", json::object()},
                                                  {"presence_penalty", 0},
                                                  {"frequency_penalty", 0}};
  for (const auto& [name, neutral] : unbuilt)
    RETURN_IF_ERROR(RefuseUnbuilt(object, name, {neutral}));
  RETURN_IF_ERROR(TakeIgnored(object));
  RETURN_IF_ERROR(RefuseRest(object));
  return request;
}

class Completion final : public Generation {
 public:
  Completion(Runtime& runtime, const CompletionRequest& request, std::shared_ptr<Choices> choices,
             int64_t index)
      : Generation(runtime, request, std::move(choices), index), echo_asked_(request.echo) {}

  // INVALID_ARGUMENT: also an echo of token ids that cannot be had.
  absl::Status Start() override;

 private:
  // The prompt is an event of its own, with its log probabilities.
  json Opening() override { return echo_.empty() ? json(nullptr) : Further(echo_); }
  json Further(const std::string& text) override {
    return {{"text", text},
            {"logprobs", logprobs().has_value() ? logprobs()->Take() : json(nullptr)}};
  }
  json Whole(const std::string& text) override { return Further(echo_ + text); }

  absl::Status PrepareEcho();
  void ScorePrompt();
  void GenerateAfter(absl::StatusOr<engine::ScoreResult> scored);
  std::shared_ptr<Completion> Self() {
    return std::static_pointer_cast<Completion>(shared_from_this());
  }

  const bool echo_asked_;
  std::string echo_;
};

absl::Status Completion::Start() {
  if (echo_asked_) RETURN_IF_ERROR(PrepareEcho());
  RETURN_IF_ERROR(PrepareLogprobs());
  if (logprobs().has_value() && !echo_.empty()) {
    ScorePrompt();
  } else {
    Generate();
  }
  return absl::OkStatus();
}

absl::Status Completion::PrepareEcho() {
  const engine::Prompt& prompt = request().generate.prompt;
  echo_ = prompt.text;
  if (prompt.tokens.empty()) return absl::OkStatus();
  const model::Tokenizer* const tokenizer = runtime().options.tokenizer;
  if (tokenizer == nullptr) return absl::InvalidArgumentError("echo: the model has no tokenizer");
  for (const int32_t token : prompt.tokens)
    RETURN_IF_ERROR(CheckRange<int64_t>("prompt", token, 0, tokenizer->vocab_size() - 1));
  echo_ = tokenizer->Decode(prompt.tokens);
  return absl::OkStatus();
}

// Generating tells nothing of the prompt's tokens: the prompt is read once more for that, first.
void Completion::ScorePrompt() {
  const engine::GenerateRequest& generate = request().generate;
  engine::ScoreRequest score;
  score.session_options = generate.session_options;
  score.account = generate.account;
  score.prompt = generate.prompt;
  score.top_logprobs = *generate.logprobs;
  choices().Follow(runtime().engine.Score(
      std::move(score), [self = Self()](absl::StatusOr<engine::ScoreResult> scored) {
        self->GenerateAfter(std::move(scored));
      }));
}

// Writing megabytes of numbers would hold the engine's thread up.
void Completion::GenerateAfter(absl::StatusOr<engine::ScoreResult> scored) {
  if (!scored.ok()) return EndIfError(scored.status());
  runtime().Continue([self = Self(), scored = *std::move(scored)] {
    self->EndIfError(OrExhausted("a completion", [&] {
      self->logprobs()->Add(scored);
      self->Generate();
      return absl::OkStatus();
    }));
  });
}

}  // namespace

absl::Status Complete(Runtime& runtime, const Request& request,
                      const std::shared_ptr<Answer>& answer) {
  ASSIGN_OR_RETURN(CompletionRequest each,
                   DecodeCompletion(request.body, runtime.options, request.caller));
  if (each.generate.save_as.has_value()) each.generate.save_as->peer = request.peer;
  const auto choices = std::make_shared<Choices>(
      runtime, Choices::Names{"cmpl", "text_completion", "text_completion"},
      Choices::Form{each.stream, each.include_usage}, std::ssize(each.prompts), answer);
  for (int64_t i = 0; i < choices->count(); ++i) {
    each.generate.prompt = std::move(each.prompts[static_cast<size_t>(i)]);
    const absl::Status started = std::make_shared<Completion>(runtime, each, choices, i)->Start();
    if (started.ok()) continue;
    choices->Fail(started);  // others may run
    break;
  }
  return absl::OkStatus();
}

}  // namespace recollect::http
