// Reads the tensors of a checkpoint into weights, and knows which tensors a mixer has. Private to
// model/.
#ifndef RECOLLECT_MODEL_WEIGHTS_WEIGHTS_READER_H_
#define RECOLLECT_MODEL_WEIGHTS_WEIGHTS_READER_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/weights/weights.h"

namespace recollect::model {

// Reads a tensor whose values must be finite. INVALID_ARGUMENT names the element that is not: one
// such value would turn every answer into NaN, far from the cause.
inline absl::StatusOr<std::vector<float>> ReadFinite(const SafetensorsFile& file,
                                                     const std::string& name) {
  ASSIGN_OR_RETURN(std::vector<float> values, file.ReadFloats(name));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": element ", i, " is ", values[i], ", expected a finite number"));
  }
  return values;
}

// Reads tensors one after another, so that at most one exists unpacked; keeps the first error.
class WeightsReader {
 public:
  WeightsReader(const SafetensorsFile& file, DType dtype) : file_(file), dtype_(dtype) {}

  int64_t bytes() const { return bytes_; }  // of the tensors read, as they are kept

  std::vector<float> Vector(const std::string& name) {
    std::vector<float> values = Floats(name);
    bytes_ += static_cast<int64_t>(values.size() * sizeof(float));
    return values;
  }

  kernels::PackedMatrix Matrix(const std::string& name) {
    const std::vector<float> values = Floats(name);
    if (!status_.ok()) return {};
    return Pack(values, file_.tensors().at(name).shape, name);
  }

  kernels::PackedMatrix Pack(const std::vector<float>& values, const std::vector<int64_t>& shape,
                             const std::string& name) {
    if (!status_.ok()) return {};
    auto packed = kernels::PackedMatrix::Create(values.data(), shape[0], shape[1], dtype_);
    if (!packed.ok()) {
      status_ = Annotate(packed.status(), name);
      return {};
    }
    bytes_ += packed->bytes();
    return *std::move(packed);
  }

  FfnWeights Ffn(const std::string& prefix, FfnKind kind) {
    return {.kind = kind,
            .norm = Vector(prefix + "ffn_norm.weight"),
            .in_proj = Matrix(prefix + "ffn.in_proj.weight"),
            .out_proj = Matrix(prefix + "ffn.out_proj.weight")};
  }

  const absl::Status& status() const { return status_; }

 private:
  std::vector<float> Floats(const std::string& name) {
    if (!status_.ok()) return {};
    auto values = ReadFinite(file_, name);
    if (!values.ok()) {
      status_ = values.status();
      return {};
    }
    return *std::move(values);
  }

  const SafetensorsFile& file_;
  DType dtype_;
  int64_t bytes_ = 0;
  absl::Status status_;
};

using AddSpec = std::function<void(const std::string& name, std::vector<int64_t> shape)>;

// The tensors of one layer's mixer and its norm; names begin with `prefix`.
void AddMixerSpecs(const ModelConfig& config, const LayerParts& parts, const std::string& prefix,
                   const AddSpec& add);
MixerWeights ReadMixer(WeightsReader& reader, const ModelConfig& config, const LayerParts& parts,
                       const std::string& prefix);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_WEIGHTS_WEIGHTS_READER_H_
