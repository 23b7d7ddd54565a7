// The task prose: the whole prompt is words of a book. It judges whether the continuation looks
// like prose, repeats the questions and values of training, or goes round in circles.
#ifndef RECOLLECT_CLI_NIAH_PROSE_H_
#define RECOLLECT_CLI_NIAH_PROSE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/niah/phrases.h"

namespace recollect::cli::niah {

// Finds traces of training in a text: one of its wordings, of needles or of questions, about one of
// its nouns; or a run of letters and digits with five digits or more, like the values of training.
class TrainedForms {
 public:
  explicit TrainedForms(const Phrases& phrases);
  bool In(std::string_view text) const;

 private:
  // The fixed texts of each wording about each noun, in order; a key or value stands between two.
  std::vector<std::vector<std::string>> wordings_;
};

// Returns whether more than `length` consecutive tokens each equal the token p places earlier, for
// p = 1, 2 or 3.
bool Cycles(std::span<const int32_t> tokens, int64_t length);

// Returns the share of a text's runs of four words that occur earlier in it; 0 for a short text.
double ShareOfRepeats(std::string_view text);

// Returns the share of bytes that are digits; 0 for an empty text.
double ShareOfDigits(std::string_view text);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_PROSE_H_
