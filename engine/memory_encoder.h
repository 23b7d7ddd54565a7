// The computation of ingest: lower layers and chunk encoder over a document, block after block. A
// family without landmarks makes no chunks: all its layers are lower ones, and what they carry on
// at the end is what is kept. Made by Backend::NewEncoder.
#ifndef RECOLLECT_ENGINE_MEMORY_ENCODER_H_
#define RECOLLECT_ENGINE_MEMORY_ENCODER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/local_state.h"
#include "model/model.h"

namespace recollect::engine {

// Tokens of one block, 1 to as many as a full one has, without its landmark.
using Block = std::span<const int32_t>;

// One document's state. Whatever number of blocks one call gets, each leaves the same bits. Used by
// one thread at a time. Encode and Serialize are called as stages of the backend and fail as those
// do; then the encoder can only be destroyed.
class MemoryEncoder {
 public:
  virtual ~MemoryEncoder() = default;

  // Runs the next blocks (model::NextBlock). One chunk for each, or none without landmarks.
  virtual absl::StatusOr<std::vector<model::EncodedChunk>> Encode(
      std::span<const Block> blocks) = 0;

  // Of the lower layers' state after the blocks so far.
  virtual int64_t bytes() const = 0;
  // LayerState::Serialize of one of its layers; beside stages of others, too.
  virtual absl::StatusOr<std::string> SerializeLayer(int layer) const = 0;
  // Goes on from there. REQUIRES: has run nothing; the state has the same patterns and layers().
  // Fails for lack of memory; then it can only be destroyed.
  virtual absl::Status Begin(model::LocalState state) = 0;

  // All of it as LocalState::Serialize, and back into an encoder that has run nothing. Restore
  // fails as LocalState::Deserialize and Begin; DATA_LOSS also unless the state has `length`
  // positions, landmarks among them.
  absl::StatusOr<std::string> Serialize() const;
  absl::Status Restore(std::string_view bytes, int64_t length);

  const model::LocalPatterns& patterns() const { return patterns_; }
  int layers() const { return config_.n_low; }

 protected:
  // Blocks one after the other, each with its landmark where the model has some.
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

#endif  // RECOLLECT_ENGINE_MEMORY_ENCODER_H_
