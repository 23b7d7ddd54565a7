// Filters on the metadata of documents, as JSON objects in the form of OpenAI's file search:
//
//   {"type": "gte", "key": "year", "value": 2024}
//   {"type": "in", "key": "lang", "value": ["en", "de"]}
//   {"type": "and", "filters": [FILTER, FILTER]}
//
// - eq, ne: equal to the value, of the same type; or not. Numbers are equal whatever their notation
// - gt, gte, lt, lte: above, not below, below, not above the value: numbers by size, strings in
//   byte order; a value of the other type never matches
// - in, nin: equal to one of a list of values; or to none of them
// - and, or: all of some filters, or at least one of them
//
// A key that a document lacks is equal to nothing: ne and nin match, the others do not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/document_store.h"

namespace recollect::store {

inline constexpr int64_t kMaxFilterBytes = 16384;
inline constexpr int64_t kMaxFilterDepth = 8;  // filters inside each other

// Immutable: copies are cheap, and may be used by several threads.
class MetadataFilter {
 public:
  MetadataFilter() = default;  // matches everything

  // Reads a filter; an empty text matches everything. INVALID_ARGUMENT, naming the place below
  // `field` ("mount_filter.filters[1].value: …"): not a filter, or beyond the limits.
  static absl::StatusOr<MetadataFilter> Parse(absl::string_view text, absl::string_view field);

  // Whether a document with this metadata (store/metadata.h) matches.
  bool Matches(absl::string_view metadata) const;
  bool matches_all() const { return root_ == nullptr; }

  struct Node;  // of metadata_filter.cc

 private:
  std::shared_ptr<const Node> root_;
};

// Returns up to `limit` documents with ids > `after` that begin with `beginning`, in byte order,
// whose metadata matches. A damaged document, of which the metadata is not known, is among them.
// May block on disk, for as long as it takes to read the records of all such ids.
absl::StatusOr<std::vector<DocumentInfo>> ListMatching(Catalog& catalog, std::string after,
                                                       int64_t limit, absl::string_view beginning,
                                                       const MetadataFilter& filter);

}  // namespace recollect::store
