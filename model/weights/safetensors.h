// Reads safetensors files (8-byte little-endian header length, JSON header, raw data). Supports
// what this project and the published tools write: F32, BF16, F16 and I32/I64 tensors, dense,
// row-major.
#ifndef RECOLLECT_MODEL_WEIGHTS_SAFETENSORS_H_
#define RECOLLECT_MODEL_WEIGHTS_SAFETENSORS_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/mapped_file.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

// A mapped file. Thread-safe once opened.
class SafetensorsFile final : public TensorFile {
 public:
  // NOT_FOUND: no file. INVALID_ARGUMENT: truncated (names expected and actual bytes), overlapping
  // or out-of-range offsets, shape and byte count that disagree, unknown dtype, malformed header.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }

 private:
  SafetensorsFile() = default;
  absl::Status ReadHeader();

  MappedFile file_;
  std::map<std::string, TensorInfo> tensors_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_WEIGHTS_SAFETENSORS_H_
