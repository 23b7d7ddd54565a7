// Searches documents' keys that are in a device's memory; what sparse_keys.cc and hybrid_keys.cc
// share.
#ifndef RECOLLECT_ENGINE_SESSION_SEARCH_ON_DEVICE_H_
#define RECOLLECT_ENGINE_SESSION_SEARCH_ON_DEVICE_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "engine/backend/sparse_index.h"

namespace recollect::engine {

// Searches `documents`, of which there is at least one. Keys has on_device(). Fails as
// SparseIndex::Search. REQUIRES: one index keeps all of them.
template <typename Keys>
absl::StatusOr<std::vector<kernels::ScoredCandidate>> SearchOnDevice(
    std::span<const Keys* const> documents, const SparseSearch& query, int n) {
  std::vector<const KeptSparse*> kept;
  for (const Keys* document : documents) {
    RECOLLECT_CHECK(document->on_device() != nullptr);
    kept.push_back(document->on_device());
  }
  return kept.front()->index().Search(kept, query, n);
}

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_SESSION_SEARCH_ON_DEVICE_H_
