// Checks to whom a directory belongs before anything in it is changed: the library deletes tables
// and logs that it does not know.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recollect::store::rocks {

// Creates the directory if it is missing, accessible to its owner alone. FAILED_PRECONDITION, or
// RESOURCE_EXHAUSTED on a full disk, naming it and `what` it is.
absl::Status MakeDirectory(const std::string& what, const std::string& directory);

// Returns the names of what is in a directory. Codes of MakeDirectory.
absl::StatusOr<std::set<std::string>> NamesIn(const std::string& what,
                                              const std::string& directory);

// Creates the directory if it is missing, accessible to its owner alone; warns if others can enter
// it, since documents are stored unencrypted. FAILED_PRECONDITION if it cannot be created, or if it
// is neither empty (but for a folder of models) nor a data directory of ours (names its contents).
absl::Status PrepareDataDirectory(const std::string& directory);

}  // namespace recollect::store::rocks
