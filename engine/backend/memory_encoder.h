// The computation of ingest: lower layers and chunk encoder over a document, block after block. A
// family without landmarks makes no chunks: all its layers are lower layers, and their state at the
// end is kept. Made by Backend::NewEncoder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/thread_pool.h"
#include "model/chunk.h"
#include "model/config/config.h"
#include "model/state/local_state.h"

namespace recollect::engine {

// The tokens of one block without its landmark, from 1 token to a full block.
using Block = std::span<const int32_t>;

// The state of one document. The bits do not depend on how blocks are divided into calls. Used by
// one thread at a time. Encode and Serialize are called like stages of the backend and fail like
// them; afterwards the encoder can only be destroyed.
class MemoryEncoder {
 public:
  virtual ~MemoryEncoder() = default;

  // Runs the next blocks (model::NextBlock). Returns one chunk for each, or none where the document
  // is a prefix. With an adapter the state is that of the segment that is open, and of no document
  // before it. May call `pause`, if there is one, between parts of the work; while that runs, the
  // backend's stages may be called as if this had not begun.
  virtual absl::StatusOr<std::vector<model::EncodedChunk>> Encode(
      std::span<const Block> blocks, const ThreadPool::Pause& pause) = 0;
  virtual bool pauses() const { return false; }

  // Bytes of the lower layers' state after the blocks so far.
  virtual int64_t bytes() const = 0;
  // LayerState::Serialize of one of its layers. May run concurrently with stages.
  virtual absl::StatusOr<std::string> SerializeLayer(int layer) const = 0;
  // Starts from `state`. REQUIRES: has run nothing; the state has the same patterns and layers().
  // Fails for lack of memory; afterwards the encoder can only be destroyed.
  virtual absl::Status Begin(model::LocalState state) = 0;

  // The whole state as LocalState::Serialize writes it, and back into an encoder that has run
  // nothing. Restore fails like LocalState::Deserialize and Begin; it is also DATA_LOSS unless the
  // state has `length` positions, landmarks included.
  absl::StatusOr<std::string> Serialize() const;
  absl::Status Restore(std::string_view bytes, int64_t length);

  const model::LocalPatterns& patterns() const { return patterns_; }
  int layers() const { return config_.n_low; }

 protected:
  // The rows of blocks one after the other, each with its landmark if the model has landmarks.
  struct Rows {
    std::vector<int32_t> ids;
    std::vector<int64_t> begins;  // of each block, and the end
  };
  Rows RowsOf(std::span<const Block> blocks) const;

  // Borrows the config.
  MemoryEncoder(const model::ModelConfig& config, const model::LocalPatterns& patterns)
      : config_(config), patterns_(patterns) {}

 private:
  const model::ModelConfig& config_;
  const model::LocalPatterns patterns_;
};

}  // namespace recollect::engine
