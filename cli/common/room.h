// Estimates whether a server has room for a document, before hours are spent on reading it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "recollect/v1/admin.pb.h"

namespace recollect::cli {

// The size of a text. The size of a whole text follows in proportion from that of a part of it.
struct TextSize {
  int64_t bytes = 0, tokens = 0, chunks = 0;
};
// Returns the size of `bytes` of text like this. REQUIRES: size.bytes > 0.
TextSize ScaledToBytes(const TextSize& size, int64_t bytes);

// The space that a document takes.
struct Room {
  int64_t disk_bytes = 0;      // of its records
  int64_t landmark_bytes = 0;  // of its landmark keys, with sketches, while it is mounted
};
// Returns the space for a document of `size`. For a model without landmarks that is text and tokens
// alone.
Room RoomFor(const v1::ModelInfo& model, const v1::Stats& stats, const TextSize& size);

// Returns RESOURCE_EXHAUSTED if the disk is too small for what is still to be written, or the
// budget of landmark keys for the whole; names the bytes needed and available. `what` is the
// beginning of the message.
absl::Status CheckRoom(const std::string& what, const v1::Stats& stats, const Room& to_write,
                       const Room& whole);

}  // namespace recollect::cli
