// Makes the keys that depend on a document's words, when it is mounted: the tokens determine the
// words of each block. Documents that are kept as text have no stored keys; documents that an
// adapter has read have stored landmark keys.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/thread_pool.h"
#include "engine/backend/sparse_index.h"
#include "engine/session/hybrid_keys.h"
#include "engine/session/sparse_keys.h"
#include "model/model.h"
#include "store/document_store.h"

namespace recollect::engine {

// Thread-safe. Borrows the model and the store.
class TextKeys {
 public:
  // `threads` null: keys are made on the caller's thread. `device`: keeps the keys; null: RAM does.
  // REQUIRES: model.words() is not null.
  TextKeys(const model::Model& model, store::DocumentReader& store,
           std::shared_ptr<ThreadPool> threads, std::shared_ptr<SparseIndex> device)
      : model_(model), store_(store), threads_(std::move(threads)), device_(std::move(device)) {}

  const SparseIndex* device() const { return device_.get(); }  // null: RAM keeps the keys

  // Returns the most bytes that a document's keys take, where they are kept.
  int64_t BytesOf(const store::DocumentInfo& info) const;
  // Returns the most bytes that the keys of Read take.
  int64_t WordBytesOf(const store::DocumentInfo& info) const;
  // Makes a document's sparse keys; key i is that of chunk i. Blocks on the disk. DATA_LOSS: the
  // tokens do not make up the chunks, or are not of the vocabulary; errors of the store and of
  // SparseIndex::Keep.
  absl::StatusOr<SparseKeys> Read(const store::DocumentInfo& info) const;
  // The same for the keys by which an adapter finds chunks. REQUIRES: an adapter.
  absl::StatusOr<HybridKeys> ReadHybrid(const store::DocumentInfo& info) const;

 private:
  struct Cut {
    std::vector<int32_t> tokens;
    std::vector<int64_t> block_tokens;
  };
  absl::StatusOr<Cut> ReadBlocks(const store::DocumentInfo& info) const;

  const model::Model& model_;
  store::DocumentReader& store_;
  const std::shared_ptr<ThreadPool> threads_;
  const std::shared_ptr<SparseIndex> device_;
};

}  // namespace recollect::engine
