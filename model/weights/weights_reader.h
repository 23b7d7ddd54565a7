// Reads the tensors of a checkpoint into weights, and knows which tensors a mixer has. Private to
// model/.
#ifndef RECOLLECT_MODEL_WEIGHTS_WEIGHTS_READER_H_
#define RECOLLECT_MODEL_WEIGHTS_WEIGHTS_READER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "kernels/quant/quant_blocks.h"
#include "model/weights/tensor_floats.h"
#include "model/weights/weights.h"

namespace recollect::model {

// Reads a tensor whose values must be finite (CheckFinite).
inline absl::StatusOr<std::vector<float>> ReadFinite(const TensorFile& file,
                                                     const std::string& name) {
  ASSIGN_OR_RETURN(std::vector<float> values, file.ReadFloats(name));
  RETURN_IF_ERROR(CheckFinite(values, 0, name));
  return values;
}

// Whether all parts of a tensor are in blocks of integers with scales.
inline bool IsInBlocks(const TensorFile& file, const std::string& name) {
  const std::vector<TensorInfo> parts = file.Parts(name);
  return std::all_of(parts.begin(), parts.end(), [](const TensorInfo& part) {
    return kernels::QuantFormatNamed(part.dtype).has_value();
  });
}

// Reads tensors one after another, so that at most one exists unpacked; keeps the first error.
class WeightsReader {
 public:
  WeightsReader(const TensorFile& file, DType dtype) : file_(file), dtype_(dtype) {}

  int64_t bytes() const { return bytes_; }  // of the tensors read, as they are kept

  std::vector<float> Vector(const std::string& name) {
    std::vector<float> values = Floats(name);
    bytes_ += static_cast<int64_t>(values.size() * sizeof(float));
    return values;
  }

  // The only number of a tensor.
  float Number(const std::string& name) {
    const std::vector<float> values = Vector(name);
    return values.empty() ? 0 : values.front();
  }

  // Packs a matrix [n, k] that is not in blocks. Of a model with quantised weights a team of
  // threads shares the products.
  absl::StatusOr<kernels::PackedMatrix> Pack(const std::vector<float>& values, int64_t n,
                                             int64_t k) const {
    return kernels::PackedMatrix::Create(values.data(), n, k, MatrixFormat(),
                                         /*for_team=*/dtype_ == DType::kQuantized);
  }

  kernels::PackedMatrix Matrix(const std::string& name) {
    if (!status_.ok()) return {};
    auto packed = dtype_ == DType::kQuantized && IsInBlocks(file_, name) ? PackBlocks(name)
                                                                         : PackFloats(name);
    if (!packed.ok()) {
      status_ = packed.status();
      return {};
    }
    bytes_ += packed->bytes();
    return *std::move(packed);
  }

  EmbeddingRows Rows(const std::string& name) {
    if (!status_.ok()) return {};
    auto rows = EmbeddingRows::Read(file_, name);
    if (!rows.ok()) {
      status_ = rows.status();
      return {};
    }
    bytes_ += rows->bytes();
    return *std::move(rows);
  }

  FfnWeights Ffn(const std::string& prefix, FfnKind kind) {
    return {.kind = kind,
            .norm = Vector(prefix + "ffn_norm.weight"),
            .in_proj = Matrix(prefix + "ffn.in_proj.weight"),
            .out_proj = Matrix(prefix + "ffn.out_proj.weight")};
  }

  const absl::Status& status() const { return status_; }

 private:
  // The number format of a matrix that is not in blocks.
  DType MatrixFormat() const {
    if (dtype_ != DType::kQuantized) return dtype_;
    return kernels::Bf16Supported() ? DType::kBf16 : DType::kFloat32;
  }

  absl::StatusOr<kernels::PackedMatrix> PackFloats(const std::string& name) {
    ASSIGN_OR_RETURN(const std::vector<float> values, ReadFinite(file_, name));
    const std::vector<int64_t>& shape = file_.tensors().at(name).shape;
    auto packed = Pack(values, shape[0], shape[1]);
    if (!packed.ok()) return Annotate(packed.status(), name);
    return packed;
  }

  // The blocks as they are, part by part.
  absl::StatusOr<kernels::PackedMatrix> PackBlocks(const std::string& name) {
    std::vector<kernels::QuantRows> rows;
    for (const TensorInfo& part : file_.Parts(name)) {
      RETURN_IF_ERROR(CheckFiniteBlocks(part, name));
      rows.push_back({*kernels::QuantFormatNamed(part.dtype), part.data, part.shape[0]});
    }
    auto packed = kernels::PackedMatrix::CreateQuantized(rows, file_.tensors().at(name).shape[1]);
    if (!packed.ok()) return Annotate(packed.status(), name);
    return packed;
  }

  std::vector<float> Floats(const std::string& name) {
    if (!status_.ok()) return {};
    auto values = ReadFinite(file_, name);
    if (!values.ok()) {
      status_ = values.status();
      return {};
    }
    return *std::move(values);
  }

  const TensorFile& file_;
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
