#include "model/reranker.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace recollect::model {
namespace {

constexpr std::string_view kBeforeSentence = "\n>",
                           kBeforeQuestion = "\nQuestion:", kEnd = "\nAnswered:";

}  // namespace

std::vector<int32_t> RerankerTokens(const Tokenizer& tokenizer, const RerankerConfig& config,
                                    const SentenceInContext& sentence, std::string_view question) {
  std::vector<int32_t> tokens;
  const auto encode = [&](std::string_view text) {
    return tokenizer.Encode(text).value_or(std::vector<int32_t>());
  };
  const auto add = [&](std::string_view text) {
    const std::vector<int32_t> all = encode(text);
    tokens.insert(tokens.end(), all.begin(), all.end());
  };
  const auto add_last = [&](std::string_view text, std::ptrdiff_t most) {
    const std::vector<int32_t> all = encode(text);
    tokens.insert(tokens.end(), all.end() - std::min(std::ssize(all), most), all.end());
  };
  add_last(sentence.before, config.context_tokens);
  add(kBeforeSentence);
  const size_t end = tokens.size() + static_cast<size_t>(config.sentence_tokens);
  add(std::string(" ").append(sentence.sentence));
  tokens.resize(std::min(tokens.size(), end));
  add(kBeforeQuestion);
  add_last(std::string(" ").append(question), config.question_tokens);
  add(kEnd);
  return tokens;
}

}  // namespace recollect::model
