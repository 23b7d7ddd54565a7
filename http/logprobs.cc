#include "http/logprobs.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace recollect::http {
namespace {

using nlohmann::json;

// A token that ends within a character is written as OpenAI's API writes it: "bytes:\\xe2\\x80".
std::string TextOf(const model::Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  if (model::FindInvalidUtf8(bytes, /*allow_partial_end=*/false) < 0) return std::string(bytes);
  return absl::StrCat("bytes:", absl::CHexEscape(std::string(bytes)));
}

}  // namespace

json Logprobs::Top(int32_t token, float logprob, std::span<const engine::TokenLogprob> top) const {
  json entry = {{TextOf(tokenizer_, token), logprob}};
  // The likeliest last: two tokens may have one text, and then the likelier one counts.
  for (size_t i = top.size(); i > 0; --i) {
    if (top[i - 1].token >= 0) entry[TextOf(tokenizer_, top[i - 1].token)] = top[i - 1].logprob;
  }
  return entry;
}

void Logprobs::Add(int32_t token, std::optional<float> logprob,
                   std::span<const engine::TokenLogprob> top) {
  tokens_.push_back(TextOf(tokenizer_, token));
  logprobs_.push_back(logprob.has_value() ? json(*logprob) : json(nullptr));
  if (top_ > 0) tops_.push_back(logprob.has_value() ? Top(token, *logprob, top) : json(nullptr));
  offsets_.push_back(offset_);
  offset_ += std::ssize(tokenizer_.TokenBytes(token));
}

void Logprobs::Add(const engine::ScoreResult& prompt) {
  const std::span<const engine::TokenLogprob> top = prompt.top;
  const size_t count = prompt.tokens.empty() ? 0 : top.size() / prompt.tokens.size();
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    const bool scored = prompt.argmax[i] >= 0;
    Add(prompt.tokens[i], scored ? std::optional(prompt.logprobs[i]) : std::nullopt,
        top.subspan(i * count, count));
  }
}

json Logprobs::Take() {
  if (tokens_.empty()) return nullptr;
  return {{"tokens", std::exchange(tokens_, json::array())},
          {"token_logprobs", std::exchange(logprobs_, json::array())},
          {"top_logprobs", top_ > 0 ? std::exchange(tops_, json::array()) : json(nullptr)},
          {"text_offset", std::exchange(offsets_, json::array())}};
}

}  // namespace recollect::http
