#include "engine/step/asked_questions.h"

#include <algorithm>

#include "base/status.h"
#include "model/text/questions.h"

namespace recollect::engine {
namespace {

// Numbers of tokens: those in front of a byte of their text, and all that begin with it or before.
struct TokensAround {
  int64_t before = 0, up_to = 0;
};

TokensAround CountAround(const model::Tokenizer& tokenizer, std::span<const int32_t> tokens,
                         size_t byte) {
  TokensAround count;
  size_t end = 0;
  for (const int32_t token : tokens) {
    count.up_to += end < byte ? 1 : 0;
    end += tokenizer.TokenBytes(token).size();
    count.before += end <= byte ? 1 : 0;
  }
  return count;
}

}  // namespace

absl::StatusOr<std::vector<AskedQuestion>> AskedQuestions(const model::Tokenizer& tokenizer,
                                                          const std::string& message,
                                                          std::span<const int32_t> prompt) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> asked, tokenizer.Encode(message));
  std::vector<AskedQuestion> questions = {{.tokens = asked}};
  const std::vector<model::MessageQuestion> parts = model::QuestionsIn(message);
  if (parts.size() < 2) return questions;
  const auto found = std::find_end(prompt.begin(), prompt.end(), asked.begin(), asked.end());
  for (const model::MessageQuestion& part : parts) {
    AskedQuestion& question = questions.emplace_back();
    ASSIGN_OR_RETURN(question.tokens, tokenizer.Encode(part.text));
    if (found == prompt.end()) continue;
    const int64_t first = CountAround(tokenizer, asked, part.range.begin).before;
    const int64_t end = CountAround(tokenizer, asked, part.range.end).up_to;
    const bool is_last = &part == &parts.back();  // what leads to the answer is its own
    const int64_t from_end = prompt.end() - found;
    question.rows_after = is_last ? 0 : from_end - end;
    question.rows = from_end - first - question.rows_after;
  }
  return questions;
}

std::span<const Bf16> RowsOf(const AskedQuestion& question, std::span<const Bf16> rows,
                             int64_t width) {
  const auto after = static_cast<size_t>(question.rows_after * width);
  if (question.rows == 0 || after >= rows.size()) return rows;
  const std::span<const Bf16> up_to = rows.first(rows.size() - after);
  return up_to.last(std::min(up_to.size(), static_cast<size_t>(question.rows * width)));
}

}  // namespace recollect::engine
