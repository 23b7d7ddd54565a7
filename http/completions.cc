#include "http/completions.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "http/completion_request.h"
#include "http/encode.h"
#include "http/errors.h"
#include "http/json.h"
#include "http/logprobs.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace recollect::http {
namespace {

using nlohmann::json;

// Without a stream: an answer has no more of them than some megabytes hold.
constexpr int64_t kMaxHits = 1 << 16;

const char* Name(engine::FinishReason reason) {
  return reason == engine::FinishReason::kMaxTokens ? "length" : "stop";
}

// One completion, from the engine's events to the answer.
class Completion final : public engine::GenerateEvents,
                         public std::enable_shared_from_this<Completion> {
 public:
  Completion(Runtime& runtime, CompletionRequest request, std::shared_ptr<Answer> answer)
      : runtime_(runtime),
        model_(runtime.options.model_name),
        tokenizer_(runtime.options.tokenizer),
        request_(std::move(request)),
        answer_(std::move(answer)) {}

  // INVALID_ARGUMENT: echo or logprobs that cannot be had.
  absl::Status Start();

  void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) override;
  void OnLogprobs(const engine::ChosenLogprob& token) override;
  void OnRetrieval(const engine::Retrieval& retrieval) override;
  void OnDone(engine::FinishReason reason, const engine::Usage& usage) override;
  void OnError(const absl::Status& status) override;

 private:
  json Event() const;  // without `choices`
  // A choice with the log probabilities that have come since the last one.
  json Chunk(const std::string& text, const json& reason);
  json Whole(engine::FinishReason reason, const engine::Usage& usage);
  void Echo();
  void Send(const json& chunk);
  void SendBeside(const char* name, json value);  // an event without text
  void Cancel(const std::shared_ptr<engine::RequestHandle>& handle);
  void ScorePrompt();
  void Generate();

  Runtime& runtime_;
  const Runtime::Work work_{runtime_};
  const std::string model_;
  const model::Tokenizer* const tokenizer_;
  CompletionRequest request_;
  const std::shared_ptr<Answer> answer_;
  const int64_t created_ = absl::ToUnixSeconds(absl::Now());
  const std::string id_ = NextId();
  std::string echo_, text_;
  std::optional<Logprobs> logprobs_;
  json retrievals_ = json::array();
  int64_t hits_ = 0, left_out_ = 0;  // of retrievals_; and retrievals beyond kMaxHits
  bool begun_ = false;

  static std::string NextId() {
    static std::atomic<int64_t> next{1};
    return absl::StrCat("cmpl-", absl::ToUnixMillis(absl::Now()), "-", next.fetch_add(1));
  }
};

absl::Status Completion::Start() {
  engine::Prompt& prompt = request_.generate.prompt;
  if (request_.echo) echo_ = prompt.text;
  if ((request_.logprobs.has_value() || (request_.echo && !prompt.tokens.empty())) &&
      tokenizer_ == nullptr)
    return absl::InvalidArgumentError("echo, logprobs: the model has no tokenizer");
  if (request_.echo && !prompt.tokens.empty()) {
    for (const int32_t token : prompt.tokens)
      RETURN_IF_ERROR(CheckRange<int64_t>("prompt", token, 0, tokenizer_->vocab_size() - 1));
    echo_ = tokenizer_->Decode(prompt.tokens);
  }
  if (request_.logprobs.has_value()) logprobs_.emplace(*tokenizer_, *request_.logprobs);
  if (logprobs_.has_value() && !echo_.empty()) {
    ScorePrompt();
  } else {
    Generate();
  }
  return absl::OkStatus();
}

void Completion::Generate() {
  Cancel(runtime_.engine.Generate(request_.generate, shared_from_this()));
}

// Generating tells nothing of the prompt's tokens: the prompt is read once more for that, first.
void Completion::ScorePrompt() {
  const engine::GenerateRequest& generate = request_.generate;
  engine::ScoreRequest score;
  score.session_options = generate.session_options;
  score.account = generate.account;
  score.prompt = generate.prompt;
  score.top_logprobs = *request_.logprobs;
  Cancel(runtime_.engine.Score(
      std::move(score), [self = shared_from_this()](absl::StatusOr<engine::ScoreResult> scored) {
        if (!scored.ok()) return SendError(*self->answer_, scored.status());
        // Writing megabytes of numbers would hold the engine's thread up.
        self->runtime_.Continue([self, scored = *std::move(scored)] {
          const absl::Status begun = OrExhausted("a completion", [&] {
            self->logprobs_->Add(scored);
            self->Generate();
            return absl::OkStatus();
          });
          if (!begun.ok()) SendError(*self->answer_, begun);
        });
      }));
}

void Completion::Cancel(const std::shared_ptr<engine::RequestHandle>& handle) {
  answer_->OnGone([handle] { handle->Cancel(); });
}

json Completion::Event() const {
  return {{"id", id_}, {"object", "text_completion"}, {"created", created_}, {"model", model_}};
}

json Completion::Chunk(const std::string& text, const json& reason) {
  const json choice = {{"index", 0},
                       {"text", text},
                       {"logprobs", logprobs_.has_value() ? logprobs_->Take() : json(nullptr)},
                       {"finish_reason", reason}};
  json event = Event();
  event["choices"] = json::array({choice});
  return event;
}

// The prompt is an event of its own, with its log probabilities, before all others of a stream.
void Completion::Echo() {
  if (!request_.stream || std::exchange(begun_, true)) return;
  answer_->Begin("text/event-stream");
  if (!echo_.empty()) answer_->Write(absl::StrCat("data: ", Dump(Chunk(echo_, nullptr)), "\n\n"));
}

void Completion::Send(const json& chunk) {
  answer_->Write(absl::StrCat("data: ", Dump(chunk), "\n\n"));
}

void Completion::SendBeside(const char* name, json value) {
  Echo();
  json event = Event();
  event["choices"] = json::array();
  event[name] = std::move(value);
  Send(event);
}

void Completion::OnTokens(const std::vector<int32_t>&, const std::string& text) {
  if (!request_.stream) {
    text_ += text;
  } else if (!text.empty() || logprobs_.has_value()) {
    Echo();
    Send(Chunk(text, nullptr));
  }
}

void Completion::OnLogprobs(const engine::ChosenLogprob& token) {
  Echo();
  logprobs_->Add(token.chosen.token, token.chosen.logprob, token.top);
}

void Completion::OnRetrieval(const engine::Retrieval& retrieval) {
  if (request_.stream) return SendBeside("retrieval", Encode(retrieval));
  hits_ += std::ssize(retrieval.hits);
  if (hits_ <= kMaxHits) {
    retrievals_.push_back(Encode(retrieval));
  } else {
    ++left_out_;
  }
}

json Completion::Whole(engine::FinishReason reason, const engine::Usage& usage) {
  json whole = Chunk(echo_ + text_, Name(reason));
  whole["usage"] = Encode(usage);
  if (request_.generate.with_retrievals) {
    whole["retrievals"] = retrievals_;
    whole["retrievals_left_out"] = left_out_;
  }
  return whole;
}

void Completion::OnDone(engine::FinishReason reason, const engine::Usage& usage) {
  if (request_.stream) {
    Echo();
    Send(Chunk("", Name(reason)));
    if (request_.include_usage) SendBeside("usage", Encode(usage));
    answer_->Write("data: [DONE]\n\n");
    return answer_->End();
  }
  if (!logprobs_.has_value()) return SendJson(*answer_, Whole(reason, usage));
  // Writing megabytes of numbers would hold the engine's thread up.
  runtime_.Continue([self = shared_from_this(), reason, usage] {
    const absl::Status sent = OrExhausted("an answer", [&] {
      SendJson(*self->answer_, self->Whole(reason, usage));
      return absl::OkStatus();
    });
    if (!sent.ok()) SendError(*self->answer_, sent);
  });
}

void Completion::OnError(const absl::Status& status) {
  if (!begun_) return SendError(*answer_, status);
  answer_->Write(absl::StrCat("data: ", ErrorJson(status), "\n\n"));
  answer_->End();
}

}  // namespace

void Complete(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer) {
  absl::StatusOr<CompletionRequest> decoded =
      DecodeCompletion(request.body, runtime.options, request.caller);
  if (!decoded.ok()) return SendError(*answer, decoded.status());
  const auto completion = std::make_shared<Completion>(runtime, *std::move(decoded), answer);
  if (absl::Status status = completion->Start(); !status.ok()) SendError(*answer, status);
}

}  // namespace recollect::http
