// JSON text to a value: the one place where text from elsewhere is parsed, whoever sent it. Copies,
// comparisons, output and destruction of a value take a stack frame for each level of it, so the
// depth of what comes in is bounded here and nowhere else.
//
//   ASSIGN_OR_RETURN(const nlohmann::json object, ParseJson(body));
#ifndef RECOLLECT_BASE_JSON_H_
#define RECOLLECT_BASE_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace recollect {

// Objects and lists inside each other: far above what requests and files of ours have.
inline constexpr int kMaxJsonDepth = 64;

// Of a key that an object has twice: the library's way, or what a file that describes weights
// needs, where the last one would hide a mistake.
enum class EqualKeys { kLastCounts, kRefused };

// INVALID_ARGUMENT: not JSON in UTF-8, with the place ("not JSON in UTF-8 at byte 7 of 9: …"); a
// number beyond the range of a double; nested deeper than kMaxJsonDepth, with both depths; a key
// that is refused. Messages do not grow with the text. Throws nothing but std::bad_alloc.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text,
                                         EqualKeys equal = EqualKeys::kLastCounts);

}  // namespace recollect

#endif  // RECOLLECT_BASE_JSON_H_
