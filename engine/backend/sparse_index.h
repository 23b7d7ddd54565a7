// Holds the sparse keys of documents in a device's memory and searches them there, with or without
// a dense part: what engine/session/sparse_keys.h and hybrid_keys.h do in RAM where there is no
// device. Hits and scores of the sparse part are the CPU's to the bit; a dense part is summed in
// the device's own order, like landmark keys (engine/backend/landmark_index.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numeric/bf16.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "kernels/sparse_topk/sparse_range.h"
#include "kernels/sparse_topk/sparse_topk.h"

namespace recollect::engine {

class SparseIndex;

// The keys of one document in a device's memory, which is freed with the object. Immutable.
class KeptSparse {
 public:
  virtual ~KeptSparse() = default;
  virtual SparseIndex& index() const = 0;
  virtual int64_t blocks() const = 0;
  virtual int64_t bytes() const = 0;
};

// Neighbouring blocks of a document, in RAM.
struct SparseSource {
  const kernels::SparseRange* lists = nullptr;
  const Bf16* dense = nullptr;  // [blocks, width]; null where there is no dense part
};

struct SparseSearch {
  std::span<const kernels::SparseTerm> terms;
  std::span<const float> dense;  // [width]
};

// Thread-safe.
class SparseIndex {
 public:
  virtual ~SparseIndex() = default;
  virtual std::string name() const = 0;  // "cuda:0 NVIDIA H200"
  // Copies the keys of a document. `width` 0: there is no dense part. The index must outlive the
  // result. RESOURCE_EXHAUSTED: the device's memory (names the bytes needed); UNAVAILABLE: the
  // device is lost; INVALID_ARGUMENT: a dense part that is too wide for the device.
  virtual absl::StatusOr<std::shared_ptr<const KeptSparse>> Keep(
      std::span<const SparseSource> ranges, int width) = 0;
  // Returns the n best blocks of all documents, fewer where fewer are hits; candidates are numbered
  // through the documents, in order. Order and ties as in kernels/sparse_topk/sparse_topk.h; with a
  // dense part every block is a hit. REQUIRES: documents that this index keeps, all of the query's
  // width. Errors as of Keep.
  virtual absl::StatusOr<std::vector<kernels::ScoredCandidate>> Search(
      std::span<const KeptSparse* const> documents, const SparseSearch& query, int n) = 0;
};

}  // namespace recollect::engine
