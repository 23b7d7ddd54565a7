// What is wrong with a file of a model, as one error. Private to model/.
#ifndef RECOLLECT_MODEL_CONFIG_PROBLEMS_H_
#define RECOLLECT_MODEL_CONFIG_PROBLEMS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace recollect::model {

// INVALID_ARGUMENT with all that is wrong with a file, at a length that can be read: a problem may
// quote a value of any size, and there may be any number. REQUIRES: not empty.
absl::Status ProblemsError(const std::vector<std::string>& problems);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_CONFIG_PROBLEMS_H_
