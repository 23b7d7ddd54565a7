// The questions of a message: "Who leads it? And what does it cost?" asks two things.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/text/sentence.h"

namespace recollect::model {

struct MessageQuestion {
  std::string text;
  TextRange range;  // of the message; without a question mark that is only in the text
};

// Returns the parts of a message that each ask one thing, in order. A part ends with a sentence
// that ends with a question mark, or in front of "and what", "or when" and the like if there are
// three words or more on either side; what is no question belongs to the next one, or to the last.
// A message that asks one thing, or more than four, and a long one, such as a text that somebody
// has pasted, is one part as it is.
std::vector<MessageQuestion> QuestionsIn(absl::string_view message);

}  // namespace recollect::model
