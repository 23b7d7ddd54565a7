// Metadata of a document: what a client says about it, such as its year or its author, to find it
// by. It is a flat JSON object, kept as its text: keys in byte order, without blanks. An empty
// string stands for no metadata.
//
//   ReadMetadata(R"({"year": 2024, "draft": true})")    // {"draft":true,"year":2024}
//   PatchMetadata(R"({"year":2024})", R"({"year": null, "lang": "en"})")  // {"lang":"en"}
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recollect::store {

inline constexpr int64_t kMaxMetadataBytes = 4096;  // of the text that is kept
inline constexpr int64_t kMaxMetadataKeys = 64;
inline constexpr int64_t kMaxMetadataKeyBytes = 64;

// Returns the beginning of a key or another short text in quotes, for messages.
std::string ShownInMessage(absl::string_view text);

// Returns the text to keep of a JSON object, empty for an object without keys. INVALID_ARGUMENT,
// naming the key: a value that is no string, number, true or false; a key that is empty, too long
// or there twice; more keys or bytes than the limits (names both numbers).
absl::StatusOr<std::string> ReadMetadata(absl::string_view object);

// Returns `metadata` with the keys of the object `patch` set, and without those that are null there
// (RFC 7396). INVALID_ARGUMENT as ReadMetadata, for the patch and for the result.
absl::StatusOr<std::string> PatchMetadata(absl::string_view metadata, absl::string_view patch);

}  // namespace recollect::store
