// The file in which a server's API keys are kept: a key a line (access/key.h), beside empty lines
// and comments, which begin with '#'.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "access/key.h"

namespace recollect::access {

inline constexpr size_t kMaxKeys = 1024;  // each is compared with what a caller sends

// INVALID_ARGUMENT naming the first line that is wrong: one that is no key, or that has the name or
// the hash of an earlier one. No key at all is allowed: then nobody may do anything.
absl::StatusOr<std::vector<Key>> ParseKeys(absl::string_view text);

// NOT_FOUND, or INVALID_ARGUMENT as above, naming the file. Warns of a file that others than its
// owner may read or write.
absl::StatusOr<std::vector<Key>> LoadKeys(const std::string& path);

// Both write a file beside it first, so that whoever reads sees the old one or the new one. The
// file gets mode 0600; it keeps its owner, and a new one gets that of its directory where this
// process may give files away. UNAVAILABLE naming the file: it cannot be written.

// Makes the file if there is none. ALREADY_EXISTS: a key of that name. INVALID_ARGUMENT also if
// `key` is none that could be read back.
absl::Status AddKey(const std::string& path, const Key& key);
// Takes the key's line out and leaves the others as they are. NOT_FOUND.
absl::Status RemoveKey(const std::string& path, const std::string& name);

}  // namespace recollect::access
