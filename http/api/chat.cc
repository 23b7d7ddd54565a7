#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "http/api/chat_request.h"
#include "http/api/choices.h"
#include "http/api/citations.h"
#include "http/api/generation.h"
#include "http/api/handlers.h"

namespace recollect::http {
namespace {

using nlohmann::json;

class ChatAnswer final : public Generation {
 public:
  ChatAnswer(Runtime& runtime, GenerationRequest request, std::shared_ptr<Choices> choices)
      : Generation(runtime, std::move(request), std::move(choices), /*index=*/0) {}

  void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) override {
    citations_.AnswerBegins();
    Generation::OnTokens(tokens, text);
  }
  void OnRetrieval(const engine::Retrieval& retrieval) override {
    citations_.Add(retrieval);
    Generation::OnRetrieval(retrieval);
  }

 private:
  json Opening() override {
    return {{"delta", {{"role", "assistant"}, {"content", ""}}}, {"logprobs", nullptr}};
  }
  json Further(const std::string& text) override {
    json delta = json::object();
    if (!text.empty()) delta["content"] = text;
    return {{"delta", std::move(delta)}, {"logprobs", TakeLogprobs()}};
  }
  json Whole(const std::string& text) override {
    return {{"message", {{"role", "assistant"}, {"content", text}}}, {"logprobs", TakeLogprobs()}};
  }
  json TakeLogprobs() { return logprobs().has_value() ? logprobs()->TakeContent() : json(nullptr); }

  bool Cites() const { return !request().generate.session_options.mounts.empty(); }
  bool EndsSlowly() const override { return Cites() || Generation::EndsSlowly(); }
  absl::Status AddToEnd(json& end, const engine::Usage& usage) override {
    if (usage.dropped_messages > 0) end["dropped_messages"] = usage.dropped_messages;
    if (!Cites()) return absl::OkStatus();
    if (const std::optional<float> nothing = citations_.nothing()) end["nothing"] = *nothing;
    ASSIGN_OR_RETURN(end["citations"], citations_.Encode(runtime().engine));
    return absl::OkStatus();
  }

  Citations citations_;
};

}  // namespace

absl::Status Chat(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer) {
  ASSIGN_OR_RETURN(GenerationRequest decoded,
                   DecodeChat(request.body, runtime.options, request.caller));
  if (decoded.generate.save_as.has_value()) decoded.generate.save_as->peer = request.peer;
  const Choices::Names names = {"chatcmpl", "chat.completion", "chat.completion.chunk"};
  const auto choices = std::make_shared<Choices>(
      runtime, names, Choices::Form{decoded.stream, decoded.include_usage}, /*count=*/1, answer);
  const auto chat = std::make_shared<ChatAnswer>(runtime, std::move(decoded), choices);
  return chat->Start();
}

}  // namespace recollect::http
