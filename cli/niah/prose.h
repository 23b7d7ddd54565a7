// prose: words of a book are the whole prompt. Does what is generated look like prose, or like the
// questions and values of training, or does it go round in circles?
#ifndef RECOLLECT_CLI_NIAH_PROSE_H_
#define RECOLLECT_CLI_NIAH_PROSE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/niah/phrases.h"

namespace recollect::cli::niah {

// Finds what training asked and answered with: one of its wordings, of needles or of questions,
// about one of its nouns; or a run of letters and digits with five digits or more, as its values
// have.
class TrainedForms {
 public:
  explicit TrainedForms(const Phrases& phrases);
  bool In(std::string_view text) const;

 private:
  // Fixed texts of each wording about each noun, which stand in order, a key or value between two.
  std::vector<std::vector<std::string>> wordings_;
};

// Whether more than `length` consecutive tokens repeat the one, two or three before them.
bool Cycles(std::span<const int32_t> tokens, int64_t length);

// Of the runs of four words in a text, the share that stand in it further up; 0 of a short text.
double ShareOfRepeats(std::string_view text);

// Of the bytes; 0 of an empty text.
double ShareOfDigits(std::string_view text);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_PROSE_H_
