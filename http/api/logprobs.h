// Log probabilities of tokens, as OpenAI's API writes them: in completions and, differently, in
// chat.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/types.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

// Takes tokens in order, and gives what has come since the last time: one time in a whole answer,
// one for each event of a stream.
class Logprobs {
 public:
  // Borrows the tokenizer. `top`: how many of the likeliest tokens are asked for; 0: none is shown.
  Logprobs(const model::Tokenizer& tokenizer, int64_t top) : tokenizer_(tokenizer), top_(top) {}

  // `logprob`: absent where nothing precedes the token. `top`: the likeliest first.
  void Add(int32_t token, std::optional<float> logprob, std::span<const engine::TokenLogprob> top);
  // All tokens of a prompt.
  void Add(const engine::ScoreResult& prompt);

  // {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, of a completion; null: nothing has
  // come. Offsets count characters, go on from one to the next, and are those of the character in
  // which a token begins.
  nlohmann::json Take();
  // {"content": [{"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}]}],
  // "refusal": null}, of a chat; null: nothing has come.
  nlohmann::json TakeContent();

 private:
  struct Entry {
    int32_t token;
    std::optional<float> logprob;
    std::vector<engine::TokenLogprob> top;
  };
  nlohmann::json Top(const Entry& entry) const;
  nlohmann::json Content(int32_t token, float logprob) const;

  const model::Tokenizer& tokenizer_;
  const int64_t top_;
  int64_t characters_ = 0;  // that tokens before have begun
  std::vector<Entry> entries_;
};

}  // namespace recollect::http
