// One API key, as a server keeps it: its hash, never the key itself. A line of a keys file is one
// key as a JSON object:
//
//   {"name": "ci", "sha256": "5e88…", "right": "read", "prefix": "team-a/"}
#ifndef RECOLLECT_ACCESS_KEY_H_
#define RECOLLECT_ACCESS_KEY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recollect::access {

// kFull includes kRead.
enum class Right {
  kRead,  // use documents: list, read, mount, generate, retrieve, score
  kFull,  // also ingest, delete, make backups
};
const char* NameOf(Right right);  // "read", "full"

struct Key {
  std::string name;    // 1 to 64 of A-Z, a-z, 0-9, '.', '_', '-'
  std::string sha256;  // of the key, 64 lower-case hex digits
  Right right = Right::kRead;
  std::string prefix;  // of the ids of the documents that it may use; empty: all

  bool operator==(const Key&) const = default;
};

// Without the end of the line.
std::string EncodeKey(const Key& key);
// INVALID_ARGUMENT naming the field that is missing, unknown or malformed, and what was expected.
absl::StatusOr<Key> DecodeKey(absl::string_view line);

// A key that nobody can guess, 46 visible ASCII characters: "rk_" and 256 random bits. Its Key is
// made by hashing it.
std::string NewSecret();

}  // namespace recollect::access

#endif  // RECOLLECT_ACCESS_KEY_H_
