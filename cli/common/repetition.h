// Finds out that an answer goes round in circles, as greedy answers of small models do.
#ifndef RECOLLECT_CLI_COMMON_REPETITION_H_
#define RECOLLECT_CLI_COMMON_REPETITION_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace recollect::cli {

// Where the end of `text` is one piece again and again, about three times and over at least 160
// bytes: the bytes of `text` up to the end of that piece's first time.
std::optional<size_t> BeforeRepetition(std::string_view text);

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_COMMON_REPETITION_H_
