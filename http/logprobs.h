// The `logprobs` of a completion's choice, in OpenAI's form.
#ifndef RECOLLECT_HTTP_LOGPROBS_H_
#define RECOLLECT_HTTP_LOGPROBS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "engine/types.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

// Takes tokens in order, and gives what has come since the last time: one time in a whole answer,
// one for each event of a stream. Offsets go on from one to the next.
class Logprobs {
 public:
  // Borrows the tokenizer. `top`: how many of the likeliest tokens are asked for; 0: none is shown.
  Logprobs(const model::Tokenizer& tokenizer, int64_t top) : tokenizer_(tokenizer), top_(top) {}

  // `logprob`: absent where nothing precedes the token. `top`: the likeliest first.
  void Add(int32_t token, std::optional<float> logprob, std::span<const engine::TokenLogprob> top);
  // All tokens of a prompt.
  void Add(const engine::ScoreResult& prompt);

  // null: nothing has come.
  nlohmann::json Take();

 private:
  nlohmann::json Top(int32_t token, float logprob, std::span<const engine::TokenLogprob> top) const;

  const model::Tokenizer& tokenizer_;
  const int64_t top_;
  int64_t offset_ = 0;  // of the next token, in bytes
  nlohmann::json tokens_ = nlohmann::json::array(), logprobs_ = nlohmann::json::array(),
                 tops_ = nlohmann::json::array(), offsets_ = nlohmann::json::array();
};

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_LOGPROBS_H_
