// What is impossible about a local pattern, whatever the checkpoint. Private to model/.
#ifndef RECOLLECT_MODEL_PATTERN_H_
#define RECOLLECT_MODEL_PATTERN_H_

#include <string>
#include <vector>

#include "model/config.h"

namespace recollect::model {

// Each starts with the name of the field; empty when the pattern is possible.
std::vector<std::string> PatternProblems(const LocalPattern& pattern);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_PATTERN_H_
