#include "model/reranker.h"

#include <algorithm>

namespace recollect::model {
namespace {

constexpr std::string_view kBeforeQuestion = "Question:", kEndOfLine = "\n";

}  // namespace

RerankerText MakeRerankerText(const Tokenizer& tokenizer, const RerankerConfig& config,
                              std::string_view question, std::span<const std::string> sentences) {
  RerankerText text;
  const auto encode = [&](std::string_view part) {
    return tokenizer.Encode(part).value_or(std::vector<int32_t>());
  };
  const auto add = [&](std::span<const int32_t> tokens) {
    text.tokens.insert(text.tokens.end(), tokens.begin(), tokens.end());
  };
  const std::vector<int32_t> end_of_line = encode(kEndOfLine);
  const auto add_line = [&](std::string_view sentence) {
    const std::vector<int32_t> all = encode(sentence);
    add(std::span(all).first(std::min(all.size(), static_cast<size_t>(config.sentence_tokens))));
    add(end_of_line);
    text.ends.push_back(text.tokens.size() - 1);
  };
  add(encode(kBeforeQuestion));
  const std::vector<int32_t> asked = encode(std::string(" ").append(question));
  add(std::span(asked).last(std::min(asked.size(), static_cast<size_t>(config.question_tokens))));
  add(end_of_line);
  add_line(kNoDocument);
  for (const std::string& sentence : sentences) add_line(sentence);
  return text;
}

}  // namespace recollect::model
