// Metadata and filters on them as flags have them: "year=2024" sets a key, "year>=2024" asks for
// one. A value that is a number, true, false or a string in quotes as JSON has it is that;
// any other is a string as it stands.
//
//   FilterFromFlags("--where", {"year>=2024", "lang!=de"})  // {"type":"and","filters":[…]}
#pragma once

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "cli/common/json.h"

namespace recollect::cli {

// Adds a flag that may be given several times, with a value each time.
CLI::Option* AddRepeated(CLI::App& verb, const std::string& flag, std::vector<std::string>& values,
                         const std::string& help);

// Returns what "KEY=VALUE" and JSON objects set, all together, as an object. INVALID_ARGUMENT
// names the flag and the value.
absl::StatusOr<Json> MetadataFromFlags(const std::string& flag,
                                       const std::vector<std::string>& values);

// Returns the filter (store/metadata_filter.h) that all conditions together make, as text; empty
// without conditions. A condition is a key, one of = != > >= < <=, and a value; or a filter as
// JSON. INVALID_ARGUMENT names the flag and the condition.
absl::StatusOr<std::string> FilterFromFlags(const std::string& flag,
                                            const std::vector<std::string>& conditions);

}  // namespace recollect::cli
