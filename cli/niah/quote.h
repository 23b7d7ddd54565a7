// quote: a few consecutive words of the haystack are the whole prompt. Is the chunk in which they
// stand retrieved, and does the text go on as it does there?
#ifndef RECOLLECT_CLI_NIAH_QUOTE_H_
#define RECOLLECT_CLI_NIAH_QUOTE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/niah/random.h"

namespace recollect::cli::niah {

// Where the words of a text stand: runs of characters that are no white space.
struct WordPlace {
  int64_t begin = 0, end = 0;
};
// Up to `count` of those that begin at or after byte `from`, where the text before that byte has no
// part of the first one.
std::vector<WordPlace> WordsFrom(std::string_view text, int64_t from, int64_t count);

// A third of the words left out, drawn at random, the others in their order.
std::vector<std::string> Thinned(std::vector<std::string> words, Random& random);
std::vector<std::string> Shuffled(std::vector<std::string> words, Random& random);

// Whether the first `count` words of both are the same; `expected` has as many.
bool StartsWithWords(std::string_view answer, std::string_view expected, int64_t count);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_QUOTE_H_
