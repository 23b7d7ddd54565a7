// Reads one GGUF file, which is a whole model or a part of one in several. Private to
// model/weights; others open a GgufFile.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/mapped_file.h"
#include "model/weights/gguf_metadata.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

// An entry of the part of a file that says which tensors there are.
struct GgufTensor {
  std::string name;
  TensorInfo info;      // without data
  uint64_t offset = 0;  // into the data, of any value
};

// Reads `count` entries. INVALID_ARGUMENT names the tensor: fewer bytes than an entry needs, a name
// of more than 64 bytes, more than 4 extents, extents whose bytes overflow or that are no whole
// blocks, a type that is not read.
absl::StatusOr<std::vector<GgufTensor>> ReadGgufDirectory(GgufCursor& cursor, uint64_t count);

// Metadata and tensors borrow from the mapped file.
struct GgufPart {
  std::string path;
  MappedFile file;
  GgufMetadata metadata;
  std::map<std::string, TensorInfo> tensors;

  // Statuses of GgufFile::Open.
  static absl::StatusOr<std::unique_ptr<GgufPart>> Open(const std::string& path);

 private:
  absl::Status Read();
  absl::Status Place(const std::vector<GgufTensor>& directory, uint64_t header_bytes);
};

}  // namespace recollect::model
