#include "engine/step/spellings.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace recollect::engine {
namespace {

// Letters of other alphabets are bytes from 128 on, whose case stays as it is.
bool IsLetter(char c) {
  return absl::ascii_isalpha(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 128;
}

// Tokens [begin, end) that are one word, and its letters.
struct Word {
  size_t begin = 0, end = 0;
  std::string text;
};

// Returns the words of tokens: a token that begins with a letter goes on with the one before it if
// that ends with one, and one that has anything else besides a blank in front is no word's.
std::vector<Word> WordsIn(const model::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::vector<Word> words;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string bytes(tokenizer.TokenBytes(tokens[i]));
    const bool blank = !bytes.empty() && absl::ascii_isspace(static_cast<unsigned char>(bytes[0]));
    const std::string_view letters = std::string_view(bytes).substr(blank ? 1 : 0);
    if (letters.empty() || !std::ranges::all_of(letters, IsLetter)) continue;
    if (blank || words.empty() || words.back().end != i) words.push_back({i, i, {}});
    words.back().end = i + 1;
    words.back().text += letters;
  }
  return words;
}

std::string OtherCase(std::string word) {
  char& first = word.front();
  const auto byte = static_cast<unsigned char>(first);
  first = absl::ascii_islower(byte) ? absl::ascii_toupper(byte) : absl::ascii_tolower(byte);
  return word;
}

}  // namespace

std::vector<kernels::SparseTerm> OtherSpellings(const model::Tokenizer& tokenizer,
                                                const model::Words& words,
                                                std::span<const int32_t> tokens,
                                                std::span<const float> weights) {
  std::vector<kernels::SparseTerm> terms;
  for (const Word& word : WordsIn(tokenizer, tokens)) {
    const auto other = tokenizer.Encode(absl::StrCat(" ", OtherCase(word.text)));
    if (!other.ok()) continue;  // a piece of a character
    std::vector<int32_t> added;
    for (const int32_t token : *other) {
      const int32_t number = words.word(token);
      const auto own = tokens.subspan(word.begin, word.end - word.begin);
      if (std::ranges::find(own, number, [&](int32_t id) { return words.word(id); }) == own.end())
        added.push_back(number);
    }
    const float weight =
        std::accumulate(weights.begin() + word.begin, weights.begin() + word.end, 0.0F);
    for (const int32_t number : added)
      terms.push_back({number, weight / static_cast<float>(other->size())});
  }
  return terms;
}

}  // namespace recollect::engine
