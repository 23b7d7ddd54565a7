// Chunks as the layers make them and as they read them, wherever they run.
#ifndef RECOLLECT_MODEL_CHUNK_H_
#define RECOLLECT_MODEL_CHUNK_H_

#include <cstdint>
#include <vector>

#include "base/bf16.h"
#include "kernels/gca/gca.h"

namespace recollect::model {

// A chunk in its stored form.
struct EncodedChunk {
  std::vector<Bf16> landmark_key;  // κ [d_r]; with its lexical part [d_k] (Model::AddTokens)
  std::vector<Bf16> states;        // E [rows, d]
  std::vector<int32_t> tokens;     // for the pointer: PointerChunk::tokens (Model::AddTokens)
  int rows = 0;
};

// What GCA reads for the rows that follow one landmark: the selected chunks, best first, and their
// weights. Borrowed.
struct Retrieved {
  std::vector<kernels::MemoryView> chunks;
  std::vector<float> weights;  // softmax over the selected scores
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_CHUNK_H_
