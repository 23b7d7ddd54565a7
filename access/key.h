// An API key as a server keeps it: its hash, never the key itself. A line of a keys file is one key
// as a JSON object:
//
//   {"name": "ci", "sha256": "5e88…", "right": "read", "prefix": "team-a/", "max_sessions": 4}
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recollect::access {

// kFull includes kRead.
enum class Right {
  kRead,  // use documents: list, read, export, mount, generate, retrieve, score
  kFull,  // also ingest, import, delete, make backups
};
const char* NameOf(Right right);  // "read", "full"

// The limits of a key; 0: none. Account (access/account.h) enforces them.
struct Quota {
  int64_t max_documents = 0;      // whose ids begin with its prefix, unfinished ones included
  int64_t max_bytes = 0;          // of text in these documents
  int64_t max_sessions = 0;       // at once: open ones, and those of requests without one
  int64_t tokens_per_minute = 0;  // that the model reads: prompts, answers, documents

  bool operator==(const Quota&) const = default;
};

// The fields of a quota by their names in a line.
struct QuotaField {
  const char* name;
  int64_t Quota::*value;
};
inline constexpr QuotaField kQuotaFields[] = {{"max_documents", &Quota::max_documents},
                                              {"max_bytes", &Quota::max_bytes},
                                              {"max_sessions", &Quota::max_sessions},
                                              {"tokens_per_minute", &Quota::tokens_per_minute}};

struct Key {
  std::string name;    // 1 to 64 of A-Z, a-z, 0-9, '.', '_', '-'
  std::string sha256;  // of the key, 64 lower-case hex digits
  Right right = Right::kRead;
  std::string prefix;  // of the ids of the documents that it may use; empty: all
  Quota quota = {};

  bool operator==(const Key&) const = default;
};

// Returns the key's line, without a newline.
std::string EncodeKey(const Key& key);
// Parses a line. INVALID_ARGUMENT names the field that is missing, unknown or malformed, and what
// was expected.
absl::StatusOr<Key> DecodeKey(absl::string_view line);

// Returns a random API key of 46 visible ASCII characters: "rk_" and 256 random bits. Its Key is
// made by hashing it.
std::string NewSecret();

}  // namespace recollect::access
