// What is said of a command line that is wrong, and `recollect help VERB`.
#ifndef RECOLLECT_CLI_USAGE_H_
#define RECOLLECT_CLI_USAGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Error.hpp"
#include "absl/status/statusor.h"

namespace recollect::cli {

// Of the candidates the one that `word` may have been meant as, by the letters that are missing,
// too many, others or in the other order. Empty: none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

// The sentence for a mistake that the parser found: names what is not known, and what may have been
// meant.
std::string Explain(const CLI::App& app, const CLI::ParseError& error);

// What was typed behind the program's name, with "help VERB" as "VERB --help". INVALID_ARGUMENT:
// there is no such verb, or more follows.
absl::StatusOr<std::vector<std::string>> Arguments(const CLI::App& app, int argc,
                                                   const char* const* argv);

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_USAGE_H_
