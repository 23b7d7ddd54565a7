#include "http/completions.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/escaping.h"
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
        end_token_(runtime.options.end_token),
        request_(std::move(request)),
        answer_(std::move(answer)) {}

  // INVALID_ARGUMENT: echo or logprobs that cannot be had.
  absl::Status Start();

  void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) override;
  void OnRetrieval(const engine::Retrieval& retrieval) override;
  void OnDone(engine::FinishReason reason, const engine::Usage& usage) override;
  void OnError(const absl::Status& status) override;

 private:
  json Chunk(const std::string& text, const json& reason) const;
  json Whole(engine::FinishReason reason, const engine::Usage& usage) const;
  std::string TokenText(int32_t id) const;
  json Top(const engine::ScoreResult& score, size_t i) const;
  json Logprobs(const engine::ScoreResult& score) const;
  void Send(const json& chunk);
  void SendBeside(const char* name, json value);  // an event without text
  void Cancel(const std::shared_ptr<engine::RequestHandle>& handle);
  void ScoreAll(json whole);

  Runtime& runtime_;
  const Runtime::Work work_{runtime_};
  const std::string model_;
  const model::Tokenizer* const tokenizer_;
  const int32_t end_token_;
  CompletionRequest request_;
  const std::shared_ptr<Answer> answer_;
  const int64_t created_ = absl::ToUnixSeconds(absl::Now());
  const std::string id_ = NextId();
  std::string echo_, text_;
  std::vector<int32_t> prompt_, generated_;  // as far as logprobs need them
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
  if (request_.logprobs.has_value()) {
    if (prompt.tokens.empty()) {
      ASSIGN_OR_RETURN(prompt.tokens, tokenizer_->Encode(prompt.text));
      prompt.text.clear();
    }
    prompt_ = prompt.tokens;
  }
  Cancel(runtime_.engine.Generate(request_.generate, shared_from_this()));
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

void Completion::SendBeside(const char* name, json value) {
  json event = Chunk("", nullptr);
  event["choices"] = json::array();
  event[name] = std::move(value);
  Send(event);
}

void Completion::OnTokens(const std::vector<int32_t>& tokens, const std::string& text) {
  if (request_.stream) {
    if (!text.empty()) Send(Chunk(text, nullptr));
    return;
  }
  text_ += text;
  if (request_.logprobs.has_value())
    generated_.insert(generated_.end(), tokens.begin(), tokens.end());
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

json Completion::Whole(engine::FinishReason reason, const engine::Usage& usage) const {
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
    Send(Chunk("", Name(reason)));
    if (request_.include_usage) SendBeside("usage", Encode(usage));
    answer_->Write("data: [DONE]\n\n");
    return answer_->End();
  }
  json whole = Whole(reason, usage);
  if (request_.logprobs.has_value()) {
    // It is not part of the answer, but was chosen, too: clients count on an entry for each choice.
    if (reason == engine::FinishReason::kEos && end_token_ >= 0) generated_.push_back(end_token_);
    return ScoreAll(std::move(whole));
  }
  SendJson(*answer_, whole);
}

void Completion::OnError(const absl::Status& status) {
  if (!begun_) return SendError(*answer_, status);
  answer_->Write(absl::StrCat("data: ", ErrorJson(status), "\n\n"));
  answer_->End();
}

// The engine emits no probabilities while it generates: prompt and answer are scored once more, in
// the same blocks.
void Completion::ScoreAll(json whole) {
  engine::ScoreRequest score;
  score.session_options = request_.generate.session_options;
  score.account = request_.generate.account;
  score.prompt.tokens = prompt_;
  score.prompt.tokens.insert(score.prompt.tokens.end(), generated_.begin(), generated_.end());
  if (!generated_.empty() && !prompt_.empty()) score.flush_after = {std::ssize(prompt_)};
  if (score.prompt.tokens.empty()) return SendJson(*answer_, whole);
  Cancel(runtime_.engine.Score(std::move(score), [self = shared_from_this(), whole](
                                                     absl::StatusOr<engine::ScoreResult> scored) {
    if (!scored.ok()) return SendError(*self->answer_, scored.status());
    // Writing megabytes of numbers would hold the engine's thread up.
    self->runtime_.Continue([self, whole, scored = *std::move(scored)] {
      json answer = whole;
      answer["choices"][0]["logprobs"] = self->Logprobs(scored);
      SendJson(*self->answer_, answer);
    });
  }));
}

// A token that ends within a character is written as OpenAI's API writes it: "bytes:\\xe2\\x80".
std::string Completion::TokenText(int32_t id) const {
  const std::string_view bytes = tokenizer_->TokenBytes(id);
  if (model::FindInvalidUtf8(bytes, /*allow_partial_end=*/false) < 0) return std::string(bytes);
  return absl::StrCat("bytes:", absl::CHexEscape(std::string(bytes)));
}

json Completion::Top(const engine::ScoreResult& score, size_t i) const {
  json top = {{TokenText(score.tokens[i]), score.logprobs[i]}};
  // Last: two tokens may have one text, and then the more likely one counts.
  top[TokenText(score.argmax[i])] = score.argmax_logprobs[i];
  return top;
}

json Completion::Logprobs(const engine::ScoreResult& score) const {
  json tokens = json::array(), logprobs = json::array(), offsets = json::array();
  json top = request_.logprobs == 1 ? json::array() : json(nullptr);
  int64_t offset = 0;
  for (size_t i = request_.echo ? 0 : prompt_.size(); i < score.tokens.size(); ++i) {
    const std::string_view bytes = tokenizer_->TokenBytes(score.tokens[i]);
    tokens.push_back(TokenText(score.tokens[i]));
    const bool scored = score.argmax[i] >= 0;
    logprobs.push_back(scored ? json(score.logprobs[i]) : json(nullptr));
    if (request_.logprobs == 1) top.push_back(scored ? Top(score, i) : json(nullptr));
    offsets.push_back(offset);
    offset += std::ssize(bytes);
  }
  return {{"tokens", tokens},
          {"token_logprobs", logprobs},
          {"top_logprobs", std::move(top)},
          {"text_offset", offsets}};
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
