// Reads safetensors files (8-byte little-endian header length, JSON header, raw data). Supports
// what this project and the published tools write: F32, BF16, F16 and I32/I64 tensors, dense,
// row-major.
//
// A large checkpoint is split into several such files. Its index, usually
// model.safetensors.index.json, says in its "weight_map" which file beside it holds which tensor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io/mapped_file.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

// A mapped file, or all files of an index. Thread-safe once opened.
class SafetensorsFile final : public TensorFile {
 public:
  // NOT_FOUND: no file. INVALID_ARGUMENT: truncated (names expected and actual bytes), overlapping
  // or out-of-range offsets, shape and byte count that disagree, unknown dtype, malformed header.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  // Opens what an index names. NOT_FOUND: no index, or a file that it names is not there.
  // INVALID_ARGUMENT: an index without weight_map, a file in another directory, a tensor that is in
  // no file or in another one than the index says, or what Open refuses.
  static absl::StatusOr<SafetensorsFile> OpenIndex(const std::string& index);

  const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }

  // The paths of the files, by name: with the index, all that the tensors depend on.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  SafetensorsFile() = default;
  // Maps one more file and returns its tensors.
  absl::StatusOr<std::map<std::string, TensorInfo>> Map(const std::string& path);

  std::vector<MappedFile> files_;
  std::vector<std::string> paths_;
  std::map<std::string, TensorInfo> tensors_;
};

}  // namespace recollect::model
