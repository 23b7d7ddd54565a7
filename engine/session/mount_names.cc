#include "engine/session/mount_names.h"

#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "store/metadata_filter.h"

namespace recollect::engine {

absl::StatusOr<std::vector<std::string>> ExpandMounts(store::Catalog& store,
                                                      const SessionOptions& asked) {
  ASSIGN_OR_RETURN(const store::MetadataFilter filter,
                   store::MetadataFilter::Parse(asked.mount_filter, "mount_filter"));
  std::vector<std::string> ids;
  std::unordered_set<std::string> known, found_by_wildcards;
  for (const std::string& mount : asked.mounts) {
    absl::string_view beginning = mount;
    if (!absl::ConsumeSuffix(&beginning, "*")) {
      if (!found_by_wildcards.contains(mount)) ids.push_back(mount);
      known.insert(mount);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<store::DocumentInfo> found,
                     store::ListMatching(store, "", kMaxMounts + 1, beginning, filter));
    if (found.empty()) {
      return absl::NotFoundError(absl::StrCat(
          "mounts: \"", mount, "\": no document has an id that begins with \"", beginning, "\"",
          filter.matches_all() ? "" : " and metadata that matches mount_filter"));
    }
    for (const store::DocumentInfo& document : found) {
      if (!known.insert(document.id).second) continue;
      found_by_wildcards.insert(document.id);
      ids.push_back(document.id);
    }
  }
  if (std::ssize(ids) <= kMaxMounts) return ids;
  return absl::InvalidArgumentError(absl::StrCat(
      "mounts: ", ids.size(), " documents or more, at most ", kMaxMounts, " can be mounted"));
}

absl::Status MountThoseThere(store::Catalog& store, const SessionOptions& asked,
                             std::vector<std::string>& ids,
                             const std::function<absl::Status()>& mount) {
  for (;;) {
    absl::Status status = mount();
    if (!absl::IsNotFound(status)) return status;
    ASSIGN_OR_RETURN(std::vector<std::string> there, ExpandMounts(store, asked));
    if (there == ids) return status;
    ids = std::move(there);
  }
}

}  // namespace recollect::engine
