// Retrieval from documents that are kept as text: by words alone, without a step of the layers.
//
//   const auto query = SparseQuery(*model.words(), tokens);
//   ASSIGN_OR_RETURN(const auto blocks, RetrieveText(store, pool, session.mounts(), query, 8));
//   store.ReadText(blocks[0].hit.owner, blocks[0].hit.text_begin, blocks[0].hit.text_end)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/thread_pool.h"
#include "engine/session/mounts.h"
#include "engine/types.h"
#include "store/document_store.h"

namespace recollect::engine {

// A block that was found. Its weight is its share of the scores of all that were.
struct TextBlock {
  Hit hit;
  int64_t tokens = 0;  // of the block
};

// The `k` best blocks of `mounts` that share a word with `query`, best first; of equal scores first
// those of the earlier document id, then the earlier chunk: so that the order of mounting makes no
// difference. The search is exact, and runs on the threads of `pool` (null: on the caller's) or on
// the device that has the keys. Reads the chunks that it found: blocks on the disk; errors of
// SearchSparse, and those of DocumentReader::ReadChunks, naming the document. REQUIRES: each pin
// has sparse keys.
absl::StatusOr<std::vector<TextBlock>> RetrieveText(store::DocumentReader& store, ThreadPool* pool,
                                                    std::span<const Pin> mounts,
                                                    std::span<const kernels::SparseTerm> query,
                                                    int64_t k);

}  // namespace recollect::engine
