#include "store/keys.h"

#include "absl/strings/str_cat.h"

namespace recollect::store {
namespace {

std::string BigEndian(uint64_t value) {
  std::string out(8, '\0');
  for (int i = 7; i >= 0; --i, value >>= 8) out[static_cast<size_t>(i)] = static_cast<char>(value);
  return out;
}

}  // namespace

std::string MetaKey() { return "meta"; }
std::string CatalogKey() { return "c"; }
std::string HeadKey() { return "head"; }
std::string DocumentKey(absl::string_view id) { return absl::StrCat(kDocumentPrefix, id); }
std::string IngestKey(absl::string_view id) { return absl::StrCat(kIngestPrefix, id); }
std::string RemovedKey(OwnerId owner) { return absl::StrCat(kRemovedPrefix, OwnerKey(owner)); }
std::string ResumeKey(OwnerId owner) { return absl::StrCat("s", OwnerKey(owner)); }
std::string OwnerKey(OwnerId owner) { return BigEndian(static_cast<uint64_t>(owner)); }
std::string PieceKey(OwnerId owner, int64_t index) {
  return OwnerKey(owner) + BigEndian(static_cast<uint64_t>(index));
}

OwnerId ParseOwner(absl::string_view key) {
  uint64_t value = 0;
  for (const char c : key) value = value << 8 | static_cast<uint8_t>(c);
  return OwnerId{value};
}

OwnerId NextOwner(OwnerId owner) { return OwnerId{static_cast<uint64_t>(owner) + 1}; }

std::string DocumentName(absl::string_view id) { return absl::StrCat("document '", id, "'"); }
std::string IngestName(absl::string_view id) { return absl::StrCat("ingest '", id, "'"); }
std::string OwnerName(OwnerId owner) {
  return absl::StrCat("owner ", static_cast<uint64_t>(owner));
}

std::string PieceName(absl::string_view kind, OwnerId owner, int64_t index) {
  return absl::StrCat(kind, " ", index, " of ", OwnerName(owner));
}

}  // namespace recollect::store
