// The task quote: a few consecutive words of the haystack are the whole prompt. It measures whether
// the chunk that contains them is retrieved and whether the answer continues as the text does.
#ifndef RECOLLECT_CLI_NIAH_QUOTE_H_
#define RECOLLECT_CLI_NIAH_QUOTE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/niah/random.h"

namespace recollect::cli::niah {

// The place of a word in a text. Words are runs of characters that are no white space.
struct WordPlace {
  int64_t begin = 0, end = 0;
};
// Up to `count` words that begin at or after byte `from`; a word that begins before `from` is
// skipped.
std::vector<WordPlace> WordsFrom(std::string_view text, int64_t from, int64_t count);

// The words without a third of them, drawn at random, in their order.
std::vector<std::string> Thinned(std::vector<std::string> words, Random& random);
std::vector<std::string> Shuffled(std::vector<std::string> words, Random& random);

// Whether the first `count` words of both are the same. REQUIRES: `expected` has as many.
bool StartsWithWords(std::string_view answer, std::string_view expected, int64_t count);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_QUOTE_H_
