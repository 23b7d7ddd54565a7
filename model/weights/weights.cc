#include "model/weights/weights.h"

#include <algorithm>
#include <set>

#include "base/status.h"
#include "model/config/problems.h"
#include "model/weights/adapter_weights.h"
#include "model/weights/weights_list.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config) {
  WeightsReader list;
  Weights none;
  AddTensors(list, config, none);
  return list.specs();
}

absl::Status CheckTensors(const TensorFile& file, const std::vector<TensorSpec>& expected,
                          const std::function<bool(const std::string& name)>& redundant) {
  std::vector<std::string> problems;
  std::set<std::string> known;
  for (const TensorSpec& spec : expected) {
    known.insert(spec.name);
    const auto found = file.tensors().find(spec.name);
    if (found == file.tensors().end()) {
      problems.push_back(absl::StrCat(spec.name, " is missing, expected ", ShapeText(spec.shape)));
    } else if (found->second.shape != spec.shape) {
      problems.push_back(absl::StrCat(spec.name, " is ", ShapeText(found->second.shape),
                                      ", the config expects ", ShapeText(spec.shape)));
    } else if (found->second.integers()) {
      problems.push_back(absl::StrCat(spec.name, " is ", found->second.dtype,
                                      ", expected floating-point numbers"));
    }
  }
  for (const auto& [name, info] : file.tensors()) {
    if (known.contains(name) || (redundant && redundant(name))) continue;
    problems.push_back(
        absl::StrCat(name, " ", ShapeText(info.shape), " is not a tensor of this config"));
  }
  return problems.empty() ? absl::OkStatus() : ProblemsError(problems);
}

bool HasBlocks(const TensorFile& file) {
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [&](const auto& tensor) { return IsInBlocks(file, tensor.first); });
}

absl::StatusOr<Weights> LoadWeights(const TensorFile& file, const TensorFile* adapter,
                                    const ModelConfig& config, DType dtype) {
  Weights weights;
  WeightsReader reader(file, dtype);
  AddTensors(reader, config, weights);
  RETURN_IF_ERROR(reader.status());
  weights.bytes = reader.bytes();
  if (adapter != nullptr) RETURN_IF_ERROR(ReadAdapter(*adapter, config, dtype, weights));
  return weights;
}

}  // namespace recollect::model
