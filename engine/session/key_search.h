// Holds what the searches of keys that depend on words share (sparse_keys.cc, hybrid_keys.cc).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/sync/thread_pool.h"
#include "engine/backend/sparse_index.h"

namespace recollect::engine {

// body(i) for each i in [0, count), in any order, on the threads of `pool` (null: on the caller's);
// returns when all have returned.
inline void ForEach(ThreadPool* pool, int64_t count, const std::function<void(int64_t)>& body) {
  if (pool != nullptr && count > 1) {
    pool->ParallelFor(count, [&](int64_t i, int) { body(i); });
  } else {
    for (int64_t i = 0; i < count; ++i) body(i);
  }
}

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
