// JSON text to a value, strictly: the one place where the JSON library's exceptions are caught.
// Private to model/.
#ifndef RECOLLECT_MODEL_CONFIG_JSON_H_
#define RECOLLECT_MODEL_CONFIG_JSON_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace recollect::model {

// INVALID_ARGUMENT: not JSON (with the parser's position), an object that has a key twice, or
// objects and lists inside each other more than 32 deep.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text);

// INVALID_ARGUMENT with all that is wrong with a file, at a length that can be read: a problem may
// quote a value of any size, and there may be any number. REQUIRES: not empty.
absl::Status ProblemsError(const std::vector<std::string>& problems);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_CONFIG_JSON_H_
