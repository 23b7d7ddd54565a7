// The fingerprint, which binds stored memory to the model that wrote it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "model/config/config.h"
#include "model/model_files.h"

namespace recollect::model {

// The version of the layout of what the model gives out to be stored: landmark keys, chunk states,
// LocalState::Serialize.
inline constexpr int kRecordLayoutVersion = 1;

// Hex SHA-256 of the contents of a model's files, one after the other where weights are in several;
// "absent" for a file that does not exist. Of a GGUF file, which holds all three, as the weights',
// the others "gguf". Empty for the adapter where there is none.
struct FileDigests {
  std::string config, weights, tokenizer, adapter;
};

// INVALID_ARGUMENT: a file cannot be read.
absl::StatusOr<FileDigests> HashModelFiles(const ModelFiles& files);

// Hex SHA-256 over the files' digests, the ingest pattern, the record layout version and the number
// format of the products. INTERNAL: SHA-256 is not available.
absl::StatusOr<std::string> ComputeFingerprint(const FileDigests& files,
                                               const LocalPatterns& patterns, DType dtype);

}  // namespace recollect::model
