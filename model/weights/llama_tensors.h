// A checkpoint of the family `llama` under the names of docs/model-format.md: projections that its
// file has apart are one tensor here, stacked by rows. Private to model/ and its tests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

// How a llama file calls its tensors.
enum class LlamaNames {
  kHub,   // model.layers.0.self_attn.q_proj.weight
  kGguf,  // blk.0.attn_q.weight
};

// Owns the file; thread-safe.
class LlamaTensors final : public TensorFile {
 public:
  // INVALID_ARGUMENT with every missing, unexpected or misshapen tensor at once, by its name in the
  // file and with both shapes.
  static absl::StatusOr<std::unique_ptr<LlamaTensors>> Create(std::unique_ptr<TensorFile> file,
                                                              const ModelConfig& config,
                                                              LlamaNames names);

  const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }
  std::vector<TensorInfo> Parts(const std::string& name) const override;

 private:
  explicit LlamaTensors(std::unique_ptr<TensorFile> file) : file_(std::move(file)) {}

  std::unique_ptr<TensorFile> file_;
  std::map<std::string, TensorInfo> tensors_;
  std::map<std::string, std::vector<std::string>> parts_;  // names in the file, from the first row
};

}  // namespace recollect::model
