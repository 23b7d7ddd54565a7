#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "http/api/fields.h"
#include "http/api/handlers.h"
#include "http/api/request_fields.h"
#include "http/net/json.h"
#include "model/model.h"
#include "model/text/tokenizer.h"

namespace recollect::http {
namespace {

using nlohmann::json;

absl::StatusOr<const model::Tokenizer*> TokenizerOf(const ServerOptions& options) {
  if (options.tokenizer != nullptr) return options.tokenizer;
  return absl::InvalidArgumentError("the model has no tokenizer");
}

// The most tokens of a prompt that needs no other pattern than the model's own.
int64_t MostTokens(const model::Model* model) {
  const int64_t limit = model == nullptr ? 0 : model->config().PositionLimit(model->config().local);
  return limit == 0 ? engine::kMaxPromptTokens : std::min(limit, engine::kMaxPromptTokens);
}

absl::StatusOr<json> TokenizeBody(const std::string& body, const ServerOptions& options) {
  ASSIGN_OR_RETURN(json object, ParseObject(body));
  std::optional<std::string> prompt;
  bool special = true, strings = false;
  RETURN_IF_ERROR(TakeModel(object, options));
  RETURN_IF_ERROR(Take(object, "prompt", "a string", prompt));
  // No model here puts tokens before or behind a text, so both values mean the same.
  RETURN_IF_ERROR(Take(object, "add_special_tokens", "a boolean", special));
  RETURN_IF_ERROR(Take(object, "return_token_strs", "a boolean", strings));
  RETURN_IF_ERROR(RefuseRest(object));
  if (!prompt.has_value()) return absl::InvalidArgumentError("prompt: missing");
  ASSIGN_OR_RETURN(const model::Tokenizer* const tokenizer, TokenizerOf(options));
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer->Encode(*prompt));
  json token_strings = nullptr;
  if (strings) {
    token_strings = json::array();
    for (const int32_t id : tokens) token_strings.push_back(tokenizer->TokenBytes(id));
  }
  return json{{"tokens", tokens},
              {"count", tokens.size()},
              {"max_model_len", MostTokens(options.model)},
              {"token_strs", std::move(token_strings)}};
}

absl::StatusOr<json> DetokenizeBody(const std::string& body, const ServerOptions& options) {
  ASSIGN_OR_RETURN(json object, ParseObject(body));
  std::optional<std::vector<int32_t>> tokens;
  RETURN_IF_ERROR(TakeModel(object, options));
  RETURN_IF_ERROR(Take(object, "tokens", "an array of token ids", tokens));
  RETURN_IF_ERROR(RefuseRest(object));
  if (!tokens.has_value()) return absl::InvalidArgumentError("tokens: missing");
  ASSIGN_OR_RETURN(const model::Tokenizer* const tokenizer, TokenizerOf(options));
  for (const int32_t id : *tokens)
    RETURN_IF_ERROR(CheckRange<int64_t>("tokens", id, 0, tokenizer->vocab_size() - 1));
  return json{{"prompt", tokenizer->Decode(*tokens)}};
}

}  // namespace

absl::Status Tokenize(Runtime& runtime, const Request& request,
                      const std::shared_ptr<Answer>& answer) {
  return Reply(*answer, TokenizeBody(request.body, runtime.options));
}

absl::Status Detokenize(Runtime& runtime, const Request& request,
                        const std::shared_ptr<Answer>& answer) {
  return Reply(*answer, DetokenizeBody(request.body, runtime.options));
}

absl::Status TokenizerInfo(Runtime& runtime, const Request&,
                           const std::shared_ptr<Answer>& answer) {
  ASSIGN_OR_RETURN(const model::Tokenizer* const tokenizer, TokenizerOf(runtime.options));
  // Written in a text, control symbols are ordinary text: there is no string that stands for one.
  return Reply(*answer, json{{"tokenizer_class", tokenizer->kind()},
                             {"vocab_size", tokenizer->vocab_size()},
                             {"bos_token", nullptr},
                             {"eos_token", nullptr}});
}

}  // namespace recollect::http
