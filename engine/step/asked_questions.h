// The questions of a user's message, and which rows of the prompt's end are theirs (docs/llama.md,
// "Questions of a message").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numeric/bf16.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {

struct AskedQuestion {
  std::vector<int32_t> tokens;
  int64_t rows = 0;        // of its own; 0: all rows up to the answer
  int64_t rows_after = 0;  // between these and the answer
};

// Returns the message, and then its parts if it asks several things. `prompt` ends with the message
// and what leads to the answer; of a message that is not there parts have all rows.
absl::StatusOr<std::vector<AskedQuestion>> AskedQuestions(const model::Tokenizer& tokenizer,
                                                          const std::string& message,
                                                          std::span<const int32_t> prompt);

// Returns the rows of a question that are among `rows` [n, width], the last ones up to the answer;
// all of them if none is.
std::span<const Bf16> RowsOf(const AskedQuestion& question, std::span<const Bf16> rows,
                             int64_t width);

}  // namespace recollect::engine
