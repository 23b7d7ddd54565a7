// Keys of records on disk, and the names of records in messages. Owner and index are big-endian, so
// that byte order is number order and an owner's records lie together:
// [OwnerKey(owner), OwnerKey(NextOwner(owner))) holds all of them. docs/formats.md lists all keys.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/types.h"

namespace recollect::store {

inline constexpr absl::string_view kDocumentPrefix = "d";
inline constexpr absl::string_view kIngestPrefix = "i";
inline constexpr absl::string_view kRemovedPrefix = "r";
std::string MetaKey();
std::string CatalogKey();
std::string HeadKey();
std::string DocumentKey(absl::string_view id);
std::string IngestKey(absl::string_view id);
std::string RemovedKey(OwnerId owner);
std::string ResumeKey(OwnerId owner);
std::string OwnerKey(OwnerId owner);
std::string PieceKey(OwnerId owner, int64_t index);
OwnerId ParseOwner(absl::string_view key);  // of an OwnerKey
OwnerId NextOwner(OwnerId owner);

// "document 'x'", "chunk 17 of owner 3" and the like, for messages.
std::string DocumentName(absl::string_view id);
std::string IngestName(absl::string_view id);
std::string OwnerName(OwnerId owner);
std::string PieceName(absl::string_view kind, OwnerId owner, int64_t index);

}  // namespace recollect::store
