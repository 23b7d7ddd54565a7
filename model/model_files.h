// The files that a model is read from, in one of three layouts: a directory of this project's
// format, a directory in the layout of Hugging Face, or a GGUF file (docs/model-format.md). Private
// to model/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

enum class ModelLayout {
  kOwn,  // config.json, model.safetensors, tokenizer.model
  // config.json with "model_type", tokenizer.model of SentencePiece or else tokenizer.json, and
  // model.safetensors or several files with model.safetensors.index.json
  kHub,
  kGguf,  // one file with everything, or the first of those that it is split into
};

struct ModelFiles {
  ModelLayout layout = ModelLayout::kOwn;
  std::string config, weights, tokenizer;  // paths; all the same with kGguf
  // The files of the memory adapter, memory.json, memory.safetensors and, where it has them,
  // reader.safetensors and reranker.safetensors in the directory; empty: none.
  std::string adapter_config = {}, adapter_weights = {}, reader_weights = {}, reranker_weights = {};

  bool has_adapter() const { return !adapter_config.empty(); }
};

// Finds the parts of the model at `path`: a directory, which may hold one GGUF file instead of a
// config.json, or a GGUF file. Checks that files exist only as far as the layout depends on it. The
// path of a GGUF file means the model without the adapter in its directory. INVALID_ARGUMENT:
// several GGUF files and no config.json, naming them; a config.json that is not JSON.
absl::StatusOr<ModelFiles> FindModelFiles(const std::string& path);

// Returns the files that hold the weights: one, an index and the files that it names, or the parts
// of a GGUF file. Statuses of SafetensorsFile::OpenIndex and GgufFile::Open.
absl::StatusOr<std::vector<std::string>> WeightPaths(const ModelFiles& files);

// Reads and checks the config, with that of the adapter. INVALID_ARGUMENT as ParseConfig, after the
// path; errors of AddAdapter.
absl::StatusOr<ModelConfig> ReadConfig(const ModelFiles& files);

// Opens the weights under the names of docs/model-format.md. INVALID_ARGUMENT, after the path, with
// every missing, unexpected or misshapen tensor at once.
absl::StatusOr<std::unique_ptr<TensorFile>> OpenWeights(const ModelFiles& files,
                                                        const ModelConfig& config);

// Opens the adapter's tensors and checks them likewise. REQUIRES: files.has_adapter().
absl::StatusOr<std::unique_ptr<TensorFile>> OpenAdapter(const ModelFiles& files,
                                                        const ModelConfig& config);

// The same of its reader and its reranker. REQUIRES: the config has one.
absl::StatusOr<std::unique_ptr<TensorFile>> OpenReader(const ModelFiles& files,
                                                       const ModelConfig& config);
absl::StatusOr<std::unique_ptr<TensorFile>> OpenReranker(const ModelFiles& files,
                                                         const ModelConfig& config);

}  // namespace recollect::model
