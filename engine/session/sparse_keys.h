// Finds blocks of documents by their words: the sparse keys of a document, and their search
// (kernels/sparse_topk/sparse_topk.h). A model without an encoder of its own retrieves by them
// alone.
//   score(block) = Σ over the different words w of the question: idf(w) · (2/3)^d, where d is how
//                  many blocks away the nearest block of the document with w is; 0 above 2
// A word counts once however often it occurs, and words nearby count, because the topic of a
// question often stands beside the sentence that answers it (docs/decisions/0044-sparse-search.md
// has the effect of each).
//
//   auto keys = SparseKeys::Make(words, tokens, block_tokens, &pool);
//   const SparseKeys* mounted[] = {&keys};
//   ASSIGN_OR_RETURN(const auto best, SearchSparse(&pool, mounted, SparseQuery(words, question),
//   8));
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/thread_pool.h"
#include "engine/backend/sparse_index.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "kernels/sparse_topk/sparse_range.h"
#include "kernels/sparse_topk/sparse_topk.h"
#include "model/text/words.h"

namespace recollect::engine {

// The words in and near each block of one document, in RAM or in a device's memory. Immutable but
// for MoveTo; thread-safe.
class SparseKeys {
 public:
  // Makes the keys of blocks, of which block i has the next block_tokens[i] of `tokens`, in
  // parallel on the threads of `pool` (null: on the caller's). REQUIRES: blocks of at most 64
  // tokens that together have all `tokens`, and ids below words.tokens().
  static SparseKeys Make(const model::Words& words, std::span<const int32_t> tokens,
                         std::span<const int64_t> block_tokens, ThreadPool* pool);

  // Copies the keys to a device, which searches them from then on, and frees their RAM. Fails as
  // SparseIndex::Keep; then they stay where they are.
  absl::Status MoveTo(SparseIndex& device);

  int64_t blocks() const { return blocks_; }
  int64_t bytes() const;  // where they are
  // Returns the most that bytes() can be for so many tokens and blocks, before they are read.
  static int64_t BytesOf(const model::Words& words, int64_t tokens, int64_t blocks);

  // Returns none of keys on a device.
  std::span<const kernels::SparseRange> ranges() const { return ranges_; }
  const KeptSparse* on_device() const { return on_device_.get(); }  // null: they are in RAM

 private:
  int64_t blocks_ = 0;
  std::vector<kernels::SparseRange> ranges_;
  std::shared_ptr<const KeptSparse> on_device_;
};

// Returns the different words of a question's tokens, each with its idf. REQUIRES: ids below
// words.tokens().
std::vector<kernels::SparseTerm> SparseQuery(const model::Words& words,
                                             std::span<const int32_t> tokens);

// Returns the n best blocks of all documents, fewer if fewer share a word with the query;
// candidates are numbered through the documents, in order. A block's score depends neither on other
// mounts, nor on the threads, nor on the device. Several threads may call this at once, with one
// pool or several (null: the caller's thread alone). REQUIRES: all keys are in one place. Of keys
// on a device, errors of SparseIndex::Search.
absl::StatusOr<std::vector<kernels::ScoredCandidate>> SearchSparse(
    ThreadPool* pool, std::span<const SparseKeys* const> documents,
    std::span<const kernels::SparseTerm> query, int n);

// The same for many queries, which share the passes over the keys. REQUIRES: keys in RAM.
std::vector<std::vector<kernels::ScoredCandidate>> SearchSparseAll(
    ThreadPool* pool, std::span<const SparseKeys* const> documents,
    std::span<const std::vector<kernels::SparseTerm>> queries, int n);

}  // namespace recollect::engine
