// Combines the problems of a model's file into one error. Private to model/.
#ifndef RECOLLECT_MODEL_CONFIG_PROBLEMS_H_
#define RECOLLECT_MODEL_CONFIG_PROBLEMS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace recollect::model {

// Returns INVALID_ARGUMENT with the problems of a file, cut to a readable length, since a problem
// may quote a value of any size and there may be any number. REQUIRES: `problems` is not empty.
absl::Status ProblemsError(const std::vector<std::string>& problems);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_CONFIG_PROBLEMS_H_
