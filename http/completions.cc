#include "http/completions.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "http/completion_request.h"
#include "http/encode.h"
#include "http/errors.h"
#include "http/json.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace recollect::http {
namespace {

using nlohmann::json;

const char* Name(engine::FinishReason reason) {
  return reason == engine::FinishReason::kMaxTokens ? "length" : "stop";
}

json Encode(const engine::Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.generated_tokens},
          {"total_tokens", usage.prompt_tokens + usage.generated_tokens}};
}

// One completion, from the engine's events to the answer.
class Completion final : public engine::GenerateEvents,
                         public std::enable_shared_from_this<Completion> {
 public:
  Completion(engine::Engine& engine, const ServerOptions& options, CompletionRequest request,
             std::shared_ptr<Answer> answer)
      : engine_(engine),
        model_(options.model_name),
        tokenizer_(options.tokenizer),
        request_(std::move(request)),
        answer_(std::move(answer)) {}

  // INVALID_ARGUMENT: echo or logprobs that cannot be had.
  absl::Status Start();

  void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) override;
  void OnRetrieval(const engine::Retrieval&) override {}
  void OnDone(engine::FinishReason reason, const engine::Usage& usage) override;
  void OnError(const absl::Status& status) override;

 private:
  json Chunk(const std::string& text, const json& reason) const;
  json Logprobs(const engine::ScoreResult& score) const;
  void Send(const json& chunk);
  void Cancel(const std::shared_ptr<engine::RequestHandle>& handle);
  void ScoreAll(const std::string& text, engine::FinishReason reason, const engine::Usage& usage);

  engine::Engine& engine_;
  const std::string model_;
  const model::Tokenizer* const tokenizer_;
  CompletionRequest request_;
  const std::shared_ptr<Answer> answer_;
  const int64_t created_ = absl::ToUnixSeconds(absl::Now());
  const std::string id_ = NextId();
  std::string echo_, text_;
  std::vector<int32_t> prompt_, generated_;  // as far as logprobs need them
  bool begun_ = false;

  static std::string NextId() {
    static std::atomic<int64_t> next{1};
    return absl::StrCat("cmpl-", absl::ToUnixMillis(absl::Now()), "-", next.fetch_add(1));
  }
};

absl::Status Completion::Start() {
  engine::Prompt& prompt = request_.generate.prompt;
  if (request_.echo) echo_ = prompt.text;
  if ((request_.logprobs || (request_.echo && !prompt.tokens.empty())) && tokenizer_ == nullptr)
    return absl::InvalidArgumentError("echo, logprobs: the model has no tokenizer");
  if (request_.echo && !prompt.tokens.empty()) {
    for (const int32_t token : prompt.tokens)
      RETURN_IF_ERROR(CheckRange<int64_t>("prompt", token, 0, tokenizer_->vocab_size() - 1));
    echo_ = tokenizer_->Decode(prompt.tokens);
  }
  if (request_.logprobs) {
    if (prompt.tokens.empty()) {
      ASSIGN_OR_RETURN(prompt.tokens, tokenizer_->Encode(prompt.text));
      prompt.text.clear();
    }
    prompt_ = prompt.tokens;
  }
  Cancel(engine_.Generate(request_.generate, shared_from_this()));
  return absl::OkStatus();
}

void Completion::Cancel(const std::shared_ptr<engine::RequestHandle>& handle) {
  answer_->OnGone([handle] { handle->Cancel(); });
}

json Completion::Chunk(const std::string& text, const json& reason) const {
  const json choice = {
      {"index", 0}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", reason}};
  return {{"id", id_},
          {"object", "text_completion"},
          {"created", created_},
          {"model", model_},
          {"choices", json::array({choice})}};
}

void Completion::Send(const json& chunk) {
  std::string lines;
  if (!std::exchange(begun_, true)) {
    answer_->Begin("text/event-stream");
    if (!echo_.empty()) lines = absl::StrCat("data: ", Dump(Chunk(echo_, nullptr)), "\n\n");
  }
  answer_->Write(absl::StrCat(lines, "data: ", Dump(chunk), "\n\n"));
}

void Completion::OnTokens(const std::vector<int32_t>& tokens, const std::string& text) {
  if (request_.stream) {
    if (!text.empty()) Send(Chunk(text, nullptr));
    return;
  }
  text_ += text;
  if (request_.logprobs) generated_.insert(generated_.end(), tokens.begin(), tokens.end());
}

void Completion::OnDone(engine::FinishReason reason, const engine::Usage& usage) {
  if (request_.stream) {
    Send(Chunk("", Name(reason)));
    if (request_.include_usage) {
      json last = Chunk("", nullptr);
      last["choices"] = json::array();
      last["usage"] = Encode(usage);
      Send(last);
    }
    answer_->Write("data: [DONE]\n\n");
    return answer_->End();
  }
  if (request_.logprobs) return ScoreAll(echo_ + text_, reason, usage);
  json whole = Chunk(echo_ + text_, Name(reason));
  whole["usage"] = Encode(usage);
  SendJson(*answer_, whole);
}

void Completion::OnError(const absl::Status& status) {
  if (!begun_) return SendError(*answer_, status);
  answer_->Write(absl::StrCat("data: ", ErrorJson(status), "\n\n"));
  answer_->End();
}

// The engine emits no probabilities while it generates: prompt and answer are scored once more, in
// the same blocks.
void Completion::ScoreAll(const std::string& text, engine::FinishReason reason,
                          const engine::Usage& usage) {
  engine::ScoreRequest score;
  score.session_options = request_.generate.session_options;
  score.prompt.tokens = prompt_;
  score.prompt.tokens.insert(score.prompt.tokens.end(), generated_.begin(), generated_.end());
  if (!generated_.empty() && !prompt_.empty()) score.flush_after = {std::ssize(prompt_)};
  json whole = Chunk(text, Name(reason));
  whole["usage"] = Encode(usage);
  if (score.prompt.tokens.empty()) return SendJson(*answer_, whole);
  Cancel(engine_.Score(std::move(score),
                       [self = shared_from_this(), whole](absl::StatusOr<engine::ScoreResult> s) {
                         if (!s.ok()) return SendError(*self->answer_, s.status());
                         json answer = whole;
                         answer["choices"][0]["logprobs"] = self->Logprobs(*s);
                         self->SendJson(*answer_, answer);
                       }));
}

json Completion::Logprobs(const engine::ScoreResult& score) const {
  json tokens = json::array(), logprobs = json::array(), offsets = json::array();
  int64_t offset = 0;
  for (size_t i = request_.echo ? 0 : prompt_.size(); i < score.tokens.size(); ++i) {
    const std::string_view bytes = tokenizer_->TokenBytes(score.tokens[i]);
    tokens.push_back(std::string(bytes));
    logprobs.push_back(score.argmax[i] < 0 ? json(nullptr) : json(score.logprobs[i]));
    offsets.push_back(offset);
    offset += std::ssize(bytes);
  }
  return {{"tokens", tokens},
          {"token_logprobs", logprobs},
          {"top_logprobs", nullptr},
          {"text_offset", offsets}};
}

}  // namespace

void Complete(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer) {
  absl::StatusOr<CompletionRequest> decoded =
      DecodeCompletion(request.body, runtime.options, request.caller);
  if (!decoded.ok()) return SendError(*answer, decoded.status());
  const auto completion =
      std::make_shared<Completion>(runtime.engine, runtime.options, *std::move(decoded), answer);
  if (absl::Status status = completion->Start(); !status.ok()) SendError(*answer, status);
}

}  // namespace recollect::http
