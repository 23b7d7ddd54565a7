#include "engine/session/mount_names.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace recollect::engine {
namespace {

// Ids that begin so, in byte order: at most kMaxMounts and one.
absl::StatusOr<std::vector<std::string>> IdsThatBegin(store::DocumentStore& store,
                                                      absl::string_view beginning) {
  constexpr int64_t kPage = 1024;
  std::vector<std::string> ids;
  // A list begins behind its `after`, so the document of just that id is asked for.
  std::string after(beginning);
  if (const auto itself = store.Get(after); itself.ok()) {
    ids.push_back(after);
  } else if (!absl::IsNotFound(itself.status())) {
    return itself.status();
  }
  while (std::ssize(ids) <= kMaxMounts) {
    ASSIGN_OR_RETURN(const std::vector<store::DocumentInfo> page, store.List(after, kPage));
    for (const store::DocumentInfo& info : page) {
      if (!absl::StartsWith(info.id, beginning)) return ids;
      ids.push_back(info.id);
    }
    if (std::ssize(page) < kPage) break;
    after = ids.back();
  }
  return ids;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandMounts(store::DocumentStore& store,
                                                      const std::vector<std::string>& mounts) {
  std::vector<std::string> ids;
  absl::flat_hash_set<std::string> known;
  for (const std::string& mount : mounts) {
    absl::string_view beginning = mount;
    if (!absl::ConsumeSuffix(&beginning, "*")) {
      ids.push_back(mount);
      known.insert(mount);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> found, IdsThatBegin(store, beginning));
    if (found.empty()) {
      return absl::NotFoundError(absl::StrCat(
          "mounts: \"", mount, "\": no document has an id that begins with \"", beginning, "\""));
    }
    for (const std::string& id : found) {
      if (known.insert(id).second) ids.push_back(id);
    }
  }
  if (std::ssize(ids) <= kMaxMounts) return ids;
  return absl::InvalidArgumentError(absl::StrCat(
      "mounts: ", ids.size(), " documents or more, at most ", kMaxMounts, " can be mounted"));
}

absl::Status MountThoseThere(store::DocumentStore& store, const std::vector<std::string>& mounts,
                             std::vector<std::string>& ids,
                             const std::function<absl::Status()>& mount) {
  for (;;) {
    const absl::Status status = mount();
    if (!absl::IsNotFound(status)) return status;
    ASSIGN_OR_RETURN(std::vector<std::string> there, ExpandMounts(store, mounts));
    if (there == ids) return status;
    ids = std::move(there);
  }
}

}  // namespace recollect::engine
