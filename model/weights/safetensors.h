// Reads safetensors files (8-byte little-endian header length, JSON header, raw data). Supports
// what this project and the published tools write: F32, BF16, F16 and I32/I64 tensors, dense,
// row-major.
#ifndef RECOLLECT_MODEL_WEIGHTS_SAFETENSORS_H_
#define RECOLLECT_MODEL_WEIGHTS_SAFETENSORS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

// A mapped file. Thread-safe once opened.
class SafetensorsFile final : public TensorFile {
 public:
  // NOT_FOUND: no file. INVALID_ARGUMENT: truncated (names expected and actual bytes), overlapping
  // or out-of-range offsets, shape and byte count that disagree, unknown dtype, malformed header.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  ~SafetensorsFile() override;
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  const std::map<std::string, TensorInfo>& tensors() const override;
  absl::StatusOr<std::vector<float>> ReadFloats(const std::string& name) const override;

 private:
  SafetensorsFile();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_WEIGHTS_SAFETENSORS_H_
