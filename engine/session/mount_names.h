// Names of mounts: ids of documents, or wildcards for all documents whose ids begin alike.
//
//   ExpandMounts(store, {.mounts = {"minutes", "notes/*"}})
//   // {"minutes", "notes/april", "notes/may"}
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/types.h"
#include "store/document_store.h"

namespace recollect::engine {

// Documents that one session mounts at most.
inline constexpr int64_t kMaxMounts = 16384;

// Returns the mounts of `asked` with each name that ends in "*" replaced by the ids of the
// published documents that begin with what precedes it and match the mount filter, in byte order,
// without those that were named before. A damaged document, of which the metadata is not known,
// matches. NOT_FOUND: there is none; INVALID_ARGUMENT: more than kMaxMounts in all. May block on
// disk.
absl::StatusOr<std::vector<std::string>> ExpandMounts(store::Catalog& store,
                                                      const SessionOptions& asked);

// Mounts what `ids` names, by calling `mount`. `ids` is what ExpandMounts has made of `asked`: a
// document that a wildcard has found and that has been deleted since is left out, so where `mount`
// returns NOT_FOUND it is called again with `ids` as they are then, unless these are the same.
absl::Status MountThoseThere(store::Catalog& store, const SessionOptions& asked,
                             std::vector<std::string>& ids,
                             const std::function<absl::Status()>& mount);

}  // namespace recollect::engine
