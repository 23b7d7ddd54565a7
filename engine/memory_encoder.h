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

  // The lower layers' state after the blocks so far, as LocalState::Serialize, and back into an
  // encoder that has run nothing. Restore fails as LocalState::Deserialize, or for lack of memory.
  virtual absl::StatusOr<std::string> Serialize() const = 0;
  virtual absl::Status Restore(std::string_view bytes) = 0;

  // The state in RAM, for prefixes, which are kept as such; null where it is elsewhere. REQUIRES of
  // backends that run families without landmarks: not null.
  virtual model::LocalState* local_state() { return nullptr; }
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_MEMORY_ENCODER_H_
