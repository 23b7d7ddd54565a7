// Reads GGUF files, versions 2 and 3: metadata (gguf_metadata.h), and tensors of F32, F16, BF16 and
// the block formats of kernels/quant/quant_blocks.h. Published quantised models come as one such
// file. The format: github.com/ggml-org/ggml/blob/master/docs/gguf.md.
//
// A little-endian file holds: "GGUF", uint32 version, uint64 tensors, uint64 keys; the keys with
// their values; for each tensor its name, uint32 number of extents, uint64 extents with that of
// neighbours first, uint32 type, uint64 offset into the data; the data, at the next multiple of
// general.alignment (32 if there is no such key), as is each tensor in it.
//
// A model may be split into several such files (model/gguf_parts.h). Each has its own tensors and
// the keys split.no (from 0), split.count and split.tensors.count; the first has all other
// metadata.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/weights/gguf_metadata.h"
#include "model/weights/gguf_part.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

// A mapped file, or all that a model is split into: what is read from it borrows from it, and does
// not move when it does. Thread-safe once opened.
class GgufFile final : public TensorFile {
 public:
  // Opens the file and, if it is the first of a split model, the others beside it. NOT_FOUND: no
  // file, or a part is missing. INVALID_ARGUMENT names the key or tensor, what the file says and
  // what it has: truncated, not GGUF or of another version, a type that is not read, extents that
  // overflow or are no whole blocks, an alignment that is none, data out of range, overlapping, or
  // of no tensor, a key or tensor twice, also in two parts; a file that is not the first part, or
  // whose name does not say so; parts that say other numbers than their names, or are of another
  // model.
  static absl::StatusOr<GgufFile> Open(const std::string& path);

  const GgufMetadata& metadata() const { return parts_.front()->metadata; }  // of the first file
  std::vector<std::string> paths() const;

  // Shapes are row-major, [rows, columns]: the reverse of what the file says. A dtype is "F32",
  // "F16", "BF16" or a block format's name; `data` starts at a multiple of 8.
  const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }

 private:
  GgufFile() = default;
  absl::Status Add(std::unique_ptr<GgufPart> part);
  absl::Status AddParts(int64_t count);
  absl::Status CheckTensorCount() const;

  std::vector<std::unique_ptr<GgufPart>> parts_;
  std::map<std::string, TensorInfo> tensors_;  // of all parts
};

}  // namespace recollect::model
