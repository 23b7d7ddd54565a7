// Numbers the words of a tokenizer, which sparse keys count (kernels/sparse_topk/sparse_topk.h).
// Tokens that differ in case, in blanks around them or in a common ending are one word.
//
//   word(token): the text of the token alone, where each malformed piece of UTF-8 is U+FFFD;
//   without the blanks at both ends; in lower case (Unicode, character by character); and without
//   the first of "ing", "ed", "es", "s", "ly" that it ends with and that leaves 4 characters or
//   more
//
// Words are numbered by their first appearance in the order of token ids. A control token's text is
// its name, so that it is a word of its own; pieces of characters are one word (U+FFFD, or several
// for several pieces), and all blanks are one (the empty text).
//
// A word's weight is its inverse document frequency, a property of its text alone: a table that is
// compiled in (model/text/idf.txt, made by train/data/idf.py) says it whatever the tokenizer, and
// however many documents there are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/tokenizer.h"

namespace recollect::model {

// The text by which a token's word is known, from the token's text (`word(token)` above).
std::string WordText(std::string_view token_text);

// ln(1 + (N - n + 0.5) / (n + 0.5)) of the n of N blocks of the table's texts that hold the word;
// for a word that the table lacks, what n = 0 gives if it has a letter or digit, and the least of
// all words otherwise, because rare punctuation says nothing. Positive.
float WordIdf(std::string_view word_text);

// Immutable; thread-safe.
class Words {
 public:
  // Takes the texts of all tokens, in the order of their ids; those of control tokens are names.
  static Words Make(std::span<const std::string> token_texts);
  static Words Make(const Tokenizer& tokenizer);

  int64_t tokens() const { return static_cast<int64_t>(words_.size()); }
  int32_t count() const { return static_cast<int32_t>(texts_.size()); }
  // REQUIRES: 0 <= token < tokens().
  int32_t word(int32_t token) const { return words_[static_cast<size_t>(token)]; }
  // REQUIRES: 0 <= word < count().
  std::string_view text(int32_t word) const { return texts_[static_cast<size_t>(word)]; }
  float idf(int32_t word) const { return idf_[static_cast<size_t>(word)]; }

  int64_t bytes() const;  // in memory

 private:
  std::vector<int32_t> words_;      // by token
  std::vector<std::string> texts_;  // by word
  std::vector<float> idf_;          // by word
};

}  // namespace recollect::model
