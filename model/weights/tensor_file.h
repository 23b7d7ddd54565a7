// The tensors of a checkpoint by name, whatever the format of its file is: SafetensorsFile
// (safetensors.h), GgufFile (gguf.h), or either under this project's names (llama_tensors.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace recollect::model {

struct TensorInfo {
  std::string dtype;           // "F32", "BF16", "F16", "I32", "I64", or a GGUF file's block format
  std::vector<int64_t> shape;  // row-major: the last size is that of neighbours
  const std::byte* data = nullptr;  // into the mapped file; null where it is made of several
  int64_t bytes = 0;

  bool integers() const { return dtype == "I32" || dtype == "I64"; }
};

inline std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Tensors borrow from the file. Thread-safe.
class TensorFile {
 public:
  virtual ~TensorFile() = default;

  virtual const std::map<std::string, TensorInfo>& tensors() const = 0;

  // The tensor as fp32 values in row-major order: F32 as it is, BF16 and F16 widened, blocks
  // (kernels/quant/quant_blocks.h) dequantised. NOT_FOUND: no such tensor. INVALID_ARGUMENT:
  // another dtype.
  absl::StatusOr<std::vector<float>> ReadFloats(const std::string& name) const;

  // The tensor as its file has it: one part, or several of which it is stacked by rows. REQUIRES:
  // `name` is among tensors().
  virtual std::vector<TensorInfo> Parts(const std::string& name) const {
    return {tensors().at(name)};
  }
};

// Where a tensor's data is in the data of its file; the name as messages show it.
struct TensorPlace {
  std::string name;
  uint64_t offset = 0, bytes = 0;
};
// Returns INVALID_ARGUMENT, naming the tensors, unless they fill the data but for what aligns them:
// overlaps and gaps both mean a broken writer. REQUIRES: each lies within the data.
absl::Status CheckCoverage(std::vector<TensorPlace> places, uint64_t data_bytes,
                           uint64_t alignment);

}  // namespace recollect::model
