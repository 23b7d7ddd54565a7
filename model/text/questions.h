// The questions of a message: "Who leads it? And what does it cost?" asks two things.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace recollect::model {

// Returns the parts of a message that each ask one thing, in order. A part ends with a sentence
// that ends with a question mark, or in front of "and what", "or when" and the like; what is no
// question belongs to the next one, or to the last. A message that asks one thing, or more than
// four, and a long one, such as a text that somebody has pasted, is one part as it is.
std::vector<std::string> QuestionsIn(absl::string_view message);

}  // namespace recollect::model
