// Messages for remote callers, who should not see the directories of the server's machine.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace recollect {

// Returns `message` with "a file" in place of each word that contains a slash, except in quotes,
// where ids of documents stand.
std::string WithoutPaths(absl::string_view message);

}  // namespace recollect
