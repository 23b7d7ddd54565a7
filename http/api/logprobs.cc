#include "http/api/logprobs.h"

#include <algorithm>
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

// Within a character: in UTF-8 not its first byte.
bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

void Logprobs::Add(int32_t token, std::optional<float> logprob,
                   std::span<const engine::TokenLogprob> top) {
  entries_.push_back({token, logprob, {top.begin(), top.end()}});
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

json Logprobs::Top(const Entry& entry) const {
  if (!entry.logprob.has_value()) return nullptr;
  json top = {{TextOf(tokenizer_, entry.token), *entry.logprob}};
  // The likeliest last: two tokens may have one text, and then the likelier one counts.
  for (size_t i = entry.top.size(); i > 0; --i) {
    const engine::TokenLogprob& other = entry.top[i - 1];
    if (other.token >= 0) top[TextOf(tokenizer_, other.token)] = other.logprob;
  }
  return top;
}

json Logprobs::Take() {
  if (entries_.empty()) return nullptr;
  json tokens = json::array(), logprobs = json::array(), tops = json::array(),
       offsets = json::array();
  for (const Entry& entry : std::exchange(entries_, {})) {
    tokens.push_back(TextOf(tokenizer_, entry.token));
    logprobs.push_back(entry.logprob.has_value() ? json(*entry.logprob) : json(nullptr));
    if (top_ > 0) tops.push_back(Top(entry));
    const std::string_view bytes = tokenizer_.TokenBytes(entry.token);
    const bool within = characters_ > 0 && !bytes.empty() && Continues(bytes.front());
    offsets.push_back(characters_ - (within ? 1 : 0));
    characters_ += std::count_if(bytes.begin(), bytes.end(), [](char b) { return !Continues(b); });
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", top_ > 0 ? std::move(tops) : json(nullptr)},
          {"text_offset", std::move(offsets)}};
}

json Logprobs::Content(int32_t token, float logprob) const {
  json bytes = json::array();
  for (const char byte : tokenizer_.TokenBytes(token)) bytes.push_back(static_cast<uint8_t>(byte));
  return {{"token", TextOf(tokenizer_, token)}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

json Logprobs::TakeContent() {
  if (entries_.empty()) return nullptr;
  json content = json::array();
  for (const Entry& entry : std::exchange(entries_, {})) {
    json& written = content.emplace_back(Content(entry.token, entry.logprob.value_or(0)));
    json& top = written["top_logprobs"] = json::array();
    for (const engine::TokenLogprob& other : entry.top)
      if (other.token >= 0) top.push_back(Content(other.token, other.logprob));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

}  // namespace recollect::http
