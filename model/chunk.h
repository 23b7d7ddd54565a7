// Chunks as the layers make and read them, on the CPU or on a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/numeric/bf16.h"
#include "kernels/gca/gca.h"

namespace recollect::model {

// A chunk in its stored form.
struct EncodedChunk {
  std::vector<Bf16> landmark_key;  // κ [d_r]; with its lexical part [d_k] (Model::AddTokens)
  // E [rows, d]; with an adapter each row is followed by its pointer key, [rows, state_width].
  std::vector<Bf16> states;
  std::vector<int32_t> tokens;  // for the pointer: PointerChunk::tokens (Model::AddTokens)
  int rows = 0;
};

// The selected chunks that GCA reads for the rows after one landmark, best first, and their
// weights. Borrowed.
struct Retrieved {
  std::vector<kernels::MemoryView> chunks;
  std::vector<float> weights;  // softmax over the selected scores
};

// Returns one layer's K, V of chunks that have them for several layers, one behind the other, in
// rows of `width` numbers.
inline std::vector<kernels::MemoryView> OfLayer(std::vector<kernels::MemoryView> chunks,
                                                int64_t layer, int64_t width) {
  for (kernels::MemoryView& view : chunks) {
    const int64_t offset = layer * view.rows * width;
    view = {view.keys + offset, view.values + offset, view.rows};
  }
  return chunks;
}

// A retrieved chunk whose tokens an adapter's pointer head may copy.
struct CopiedChunk {
  // [d_p, rows], borrowed: in each column the pointer key of a token. A key of zeros only means
  // none: that token begins a segment, so no earlier token tells its context.
  const Bf16* keys = nullptr;
  std::span<const int32_t> tokens;  // [rows], borrowed
  float weight = 0;                 // of its retrieval
};

}  // namespace recollect::model
