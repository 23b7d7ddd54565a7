// The keys of a document whose model has a memory adapter, and their search: a dense part, which is
// compared by its inner product, and a sparse part, which is the weights of the block's words
// (docs/llama.md, "Memory adapter"). The search is exact: no block is left out.
//   score(block) = dense query · dense key
//                  + Σ over rows of the block and terms of the query that have the same word:
//                    weight of the row · weight of the term
// Weights of rows are kept in 8 bits: round(255 w / m) with the scale m / 255, m being the largest
// of the block, so that each differs by at most m / 510 from the encoder's weight.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/large_vector.h"
#include "base/numeric/bf16.h"
#include "base/sync/thread_pool.h"
#include "engine/backend/sparse_index.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "kernels/sparse_topk/sparse_range.h"
#include "kernels/sparse_topk/sparse_topk.h"
#include "model/config/config.h"
#include "model/text/words.h"

namespace recollect::engine {

// In RAM or in a device's memory. Immutable but for MoveTo; thread-safe.
class HybridKeys {
 public:
  // Makes the keys. `landmark_keys` [blocks, key_width]: for each block the dense part [d_r], then
  // the weight of each row. Block i has the next block_tokens[i] of `tokens`. REQUIRES: a config
  // with an adapter, blocks of at most chunk_tokens that together have all `tokens`, and ids below
  // words.tokens().
  static HybridKeys Make(const model::ModelConfig& config, const model::Words& words,
                         std::span<const Bf16> landmark_keys, std::span<const int32_t> tokens,
                         std::span<const int64_t> block_tokens, ThreadPool* pool);

  // Copies the keys to a device, which searches them from then on, and frees their RAM. Fails as
  // SparseIndex::Keep; then they stay where they are.
  absl::Status MoveTo(SparseIndex& device);

  int64_t blocks() const { return blocks_; }
  int64_t bytes() const;  // where they are
  // Returns the most that bytes() can be for so many tokens and blocks, before they are read.
  static int64_t BytesOf(const model::ModelConfig& config, int64_t tokens, int64_t blocks);

  // Returns whether the block and the next one are in one segment. REQUIRES: 0 <= block < blocks().
  bool HasSuccessor(int64_t block) const { return has_successor_[static_cast<size_t>(block)]; }

  // Blocks [first_block, first_block + sparse.blocks()).
  struct Range {
    int64_t first_block = 0;
    const Bf16* dense = nullptr;  // [blocks, d_r]
    kernels::SparseRange sparse;
  };
  // Returns none of keys on a device.
  std::span<const Range> ranges() const { return ranges_; }
  const KeptSparse* on_device() const { return on_device_.get(); }  // null: they are in RAM

 private:
  int64_t blocks_ = 0;
  int width_ = 0;            // d_r
  LargeVector<Bf16> dense_;  // [blocks, d_r]
  std::vector<bool> has_successor_;
  std::vector<Range> ranges_;
  std::shared_ptr<const KeptSparse> on_device_;
};

struct HybridQuery {
  std::vector<float> dense;  // [d_r], for kernels::LandmarkScores
  std::vector<kernels::SparseTerm> terms;
};

// Returns the n best blocks of all documents, in the order of
// kernels/landmark_topk/landmark_topk.h; candidates are numbered through the documents, in order. A
// block's score depends neither on other mounts nor on the threads of `pool` (null: the caller's
// thread alone). REQUIRES: all keys are in one place. Of keys on a device, whose dense products are
// rounded in another order, errors of SparseIndex::Search.
absl::StatusOr<std::vector<kernels::ScoredCandidate>> SearchHybrid(
    ThreadPool* pool, std::span<const HybridKeys* const> documents, const HybridQuery& query,
    int n);

}  // namespace recollect::engine
