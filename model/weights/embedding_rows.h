// The rows of an embedding in RAM, in the number format of their file: a row is converted when it
// is read, so that a vocabulary of 8-bit blocks takes a quarter of what fp32 would. Private to
// model/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

// Immutable; thread-safe; borrows nothing.
class EmbeddingRows {
 public:
  EmbeddingRows() = default;  // empty; only to be assigned to
  // Copies tensor `name` [rows, width]. REQUIRES: it is among the file's tensors. INVALID_ARGUMENT:
  // not floating-point numbers, or one that is not finite.
  static absl::StatusOr<EmbeddingRows> Read(const TensorFile& file, const std::string& name);

  // out[width] = row `id`, exactly as ReadFloats gives it. REQUIRES: 0 <= id < rows.
  void Read(int32_t id, float* out) const;
  int64_t bytes() const { return static_cast<int64_t>(data_.size()); }

 private:
  std::string dtype_;
  int64_t width_ = 0;
  int64_t row_bytes_ = 0;
  std::vector<std::byte> data_;
};

}  // namespace recollect::model
