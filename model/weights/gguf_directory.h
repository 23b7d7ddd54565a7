// The part of a GGUF file that says which tensors there are. Private to model/weights.
#ifndef RECOLLECT_MODEL_WEIGHTS_GGUF_DIRECTORY_H_
#define RECOLLECT_MODEL_WEIGHTS_GGUF_DIRECTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/weights/gguf_cursor.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

struct GgufTensor {
  std::string name;
  TensorInfo info;      // without data
  uint64_t offset = 0;  // into the data, of any value
};

// Reads `count` entries. INVALID_ARGUMENT names the tensor: fewer bytes than an entry needs, a name
// of more than 64 bytes, more than 4 extents, extents whose bytes overflow or that are no whole
// blocks, a type that is not read.
absl::StatusOr<std::vector<GgufTensor>> ReadGgufDirectory(GgufCursor& cursor, uint64_t count);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_WEIGHTS_GGUF_DIRECTORY_H_
