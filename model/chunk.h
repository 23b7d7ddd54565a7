// Chunks as the layers make them and as they read them, wherever they run.
#ifndef RECOLLECT_MODEL_CHUNK_H_
#define RECOLLECT_MODEL_CHUNK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/bf16.h"
#include "kernels/gca/gca.h"

namespace recollect::model {

// A chunk in its stored form.
struct EncodedChunk {
  std::vector<Bf16> landmark_key;  // κ [d_r]; with its lexical part [d_k] (Model::AddTokens)
  // E [rows, d]; of an adapter with each row's pointer key behind it, [rows, state_width].
  std::vector<Bf16> states;
  std::vector<int32_t> tokens;  // for the pointer: PointerChunk::tokens (Model::AddTokens)
  int rows = 0;
};

// What GCA reads for the rows that follow one landmark: the selected chunks, best first, and their
// weights. Borrowed.
struct Retrieved {
  std::vector<kernels::MemoryView> chunks;
  std::vector<float> weights;  // softmax over the selected scores
};

// A retrieved chunk whose tokens an adapter's pointer head may copy.
struct CopiedChunk {
  // [rows, d_p], borrowed: the pointer key of each token. One of zeros only is none: that token
  // begins a segment, and nothing before it says where it stands.
  const Bf16* keys = nullptr;
  std::span<const int32_t> tokens;  // [rows], borrowed
  float weight = 0;                 // of its retrieval
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_CHUNK_H_
