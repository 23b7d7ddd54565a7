// Explains a wrong command line, and handles `recollect help VERB`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Error.hpp"
#include "absl/status/statusor.h"

namespace recollect::cli {

// Returns the candidate with the least Damerau-Levenshtein distance to `word` (letters missing,
// added, replaced or swapped with a neighbour); empty if none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

// Returns the message for an error of the parser: names the unknown argument, and what may have
// been meant.
std::string Explain(const CLI::App& app, const CLI::ParseError& error);

// Returns the arguments after the program's name, with "help VERB" as "VERB --help".
// INVALID_ARGUMENT: a word after "help" is no verb.
absl::StatusOr<std::vector<std::string>> Arguments(const CLI::App& app, int argc,
                                                   const char* const* argv);

}  // namespace recollect::cli
