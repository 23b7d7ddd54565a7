// The computation of ingest: lower layers and chunk encoder over a document, block after block. A
// family without landmarks makes no chunks: all its layers are lower ones, and what they carry on
// at the end is what is kept.
#ifndef RECOLLECT_ENGINE_MEMORY_ENCODER_H_
#define RECOLLECT_ENGINE_MEMORY_ENCODER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/thread_pool.h"
#include "kernels/op_context.h"
#include "model/local_state.h"
#include "model/model.h"

namespace recollect::engine {

// One document's state. Blocks are full but for the last, so a block is a tile of so many
// positions, 64 in the flagship, that starts at a multiple of them, the landmark among them where
// there are any; whatever number of them one call gets, each runs with the same shapes, and leaves
// the same bits. Used by one thread at a time; computes on the pool.
class MemoryEncoder {
 public:
  MemoryEncoder(const model::Model& model, const model::LocalPatterns& pattern, ThreadPool& pool,
                std::vector<kernels::OpContext>& contexts);

  int64_t block_tokens() const;

  // The state after the blocks so far, and back. FAILED_PRECONDITION or DATA_LOSS as
  // LocalState::Deserialize.
  std::string Serialize() const { return state_.Serialize(); }
  absl::Status Restore(std::string_view bytes);
  const model::LocalState& state() const { return state_; }
  void Restore(model::LocalState state) { state_ = std::move(state); }

  // Runs the next blocks: a multiple of block_tokens, except for the end of the document. One chunk
  // for each block, or none without landmarks. Parallel as a wavefront over (block, layer), with
  // the chunk encoder as the last column.
  std::vector<model::EncodedChunk> Encode(std::span<const int32_t> tokens);

 private:
  const model::Model& model_;
  const bool landmarks_;
  ThreadPool& pool_;
  std::vector<kernels::OpContext>& contexts_;
  model::LocalState state_;
  std::vector<float> h_;  // [blocks, rows of a full one, d]
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_MEMORY_ENCODER_H_
