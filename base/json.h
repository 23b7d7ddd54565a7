// Parses JSON text into a value: the one place where text from elsewhere is parsed, whoever sent
// it. Copying, comparing, printing and destroying a value take a stack frame for each of its
// levels, so the depth of all input is limited here and nowhere else.
//
//   ASSIGN_OR_RETURN(const nlohmann::json object, ParseJson(body));
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace recollect {

// The most objects and lists inside each other, far above those in our requests and files.
inline constexpr int kMaxJsonDepth = 64;

// The treatment of a key that an object has twice: the last one counts, as in the library, or the
// text is refused, as for files that describe weights, where the last one would hide a mistake.
enum class EqualKeys { kLastCounts, kRefused };

// Parses `text`. INVALID_ARGUMENT: not JSON in UTF-8, with the place ("not JSON in UTF-8 at byte 7
// of 9: …"); a number beyond the range of a double; nested deeper than kMaxJsonDepth, with both
// depths; a key that an object has twice, if that is refused. Messages do not grow with the text.
// Throws nothing but std::bad_alloc.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text,
                                         EqualKeys equal = EqualKeys::kLastCounts);

}  // namespace recollect
