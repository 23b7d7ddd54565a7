// The vocabulary of tests/support/tiny_bpe_tokenizer.json: 4096 tokens, the rule smollm, control
// tokens <|endoftext|>, <|im_start|> and <|im_end|> at 0, 1 and 2.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/bpe_tokenizer.h"
#include "tests/support/tiny_model.h"

namespace recollect {

inline model::BpeVocabulary TinyBpeVocabulary() {
  return model::BpeVocabulary::FromTokenizerJson(
             ReadFile(SourceDir() + "/tests/support/tiny_bpe_tokenizer.json"))
      .value();
}

// With another rule, as the published models of that rule have it, and control tokens after the
// vocabulary's own. One named "<s>" is the begin token.
inline std::unique_ptr<model::BpeTokenizer> TinyBpeTokenizer(
    model::PreTokenizer rule, const std::vector<std::string_view>& controls = {}) {
  model::BpeVocabulary vocabulary = TinyBpeVocabulary();
  vocabulary.pre = rule;
  vocabulary.ignore_merges = rule == model::PreTokenizer::kLlamaBpe;
  for (const std::string_view control : controls) {
    if (control == "<s>") vocabulary.bos = static_cast<int32_t>(vocabulary.tokens.size());
    vocabulary.tokens.emplace_back(control);
    vocabulary.types.push_back(model::TokenType::kControl);
  }
  return model::BpeTokenizer::Create(std::move(vocabulary)).value();
}

}  // namespace recollect
