// Lists the tensors of a checkpoint, and reads them into weights. Private to model/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "kernels/quant/quant_blocks.h"
#include "model/weights/tensor_floats.h"
#include "model/weights/weights.h"

namespace recollect::model {

// Whether all parts of a tensor are in blocks of integers with scales.
inline bool IsInBlocks(const TensorFile& file, const std::string& name) {
  const std::vector<TensorInfo> parts = file.Parts(name);
  return std::all_of(parts.begin(), parts.end(), [](const TensorInfo& part) {
    return kernels::QuantFormatNamed(part.dtype).has_value();
  });
}

// The tensors of a checkpoint, each named once, with its shape and its place in the weights:
// without a file this lists them, with one it also reads them, one after another, so that at most
// one exists unpacked. Keeps the first error.
class WeightsReader {
 public:
  using Shape = std::vector<int64_t>;

  WeightsReader() = default;
  WeightsReader(const TensorFile& file, DType dtype) : file_(&file), dtype_(dtype) {}

  const std::vector<TensorSpec>& specs() const { return specs_; }
  int64_t bytes() const { return bytes_; }  // of the tensors read, as they are kept
  const absl::Status& status() const { return status_; }

  // A tensor that others read.
  void Elsewhere(const std::string& name, Shape shape) {
    specs_.push_back({name, std::move(shape)});
  }

  void Vector(const std::string& name, Shape shape, std::vector<float>& out) {
    Elsewhere(name, std::move(shape));
    if (Reads() && Take(ReadFinite(*file_, name), out)) {
      bytes_ += static_cast<int64_t>(out.size() * sizeof(float));
    }
  }

  // The only number of a tensor.
  void Number(const std::string& name, float& out) {
    std::vector<float> values;
    Vector(name, {1}, values);
    if (!values.empty()) out = values.front();
  }

  void Matrix(const std::string& name, Shape shape, kernels::PackedMatrix& out) {
    Elsewhere(name, std::move(shape));
    Pack(name, out);
  }

  // A matrix of a tensor that is listed already.
  void Pack(const std::string& name, kernels::PackedMatrix& out) {
    if (!Reads()) return;
    const bool blocks = dtype_ == DType::kQuantized && IsInBlocks(*file_, name);
    if (Take(blocks ? PackBlocks(name) : PackFloats(name), out)) bytes_ += out.bytes();
  }

  // A vector that `make` makes of the file's tensors.
  template <typename Make>
  void MadeVector(int64_t /*count*/, const Make& make, std::vector<float>& out) {
    if (Reads() && Take(make(*file_), out)) {
      bytes_ += static_cast<int64_t>(out.size() * sizeof(float));
    }
  }

  // A matrix [n, k] likewise.
  template <typename Make>
  void MadeMatrix(const Make& make, int64_t n, int64_t k, kernels::PackedMatrix& out) {
    std::vector<float> values;
    if (!Reads() || !Take(make(*file_), values)) return;
    if (Take(PackValues(values, n, k), out)) bytes_ += out.bytes();
  }

  void Rows(const std::string& name, Shape shape, EmbeddingRows& out) {
    Elsewhere(name, std::move(shape));
    if (Reads() && Take(EmbeddingRows::Read(*file_, name), out)) bytes_ += out.bytes();
  }

  // The first projection of a mixer.
  void MixerInput(const std::string& name, const ModelConfig& config, const MixerConfig& mixer,
                  kernels::PackedMatrix& out) {
    Matrix(name, {MixerInputRows(config, mixer), config.d}, out);
  }

 private:
  bool Reads() const { return file_ != nullptr && status_.ok(); }

  template <typename T>
  bool Take(absl::StatusOr<T> read, T& out) {
    status_ = read.status();
    if (status_.ok()) out = *std::move(read);
    return status_.ok();
  }

  // A matrix that is not in blocks. Of a model with quantised weights a team of threads shares the
  // products.
  absl::StatusOr<kernels::PackedMatrix> PackValues(const std::vector<float>& values, int64_t n,
                                                   int64_t k) const {
    const bool quantized = dtype_ == DType::kQuantized;
    const DType fastest = kernels::Bf16Supported() ? DType::kBf16 : DType::kFloat32;
    return kernels::PackedMatrix::Create(values.data(), n, k, quantized ? fastest : dtype_,
                                         /*for_team=*/quantized);
  }

  absl::StatusOr<kernels::PackedMatrix> PackFloats(const std::string& name) const {
    ASSIGN_OR_RETURN(const std::vector<float> values, ReadFinite(*file_, name));
    const Shape& shape = file_->tensors().at(name).shape;
    auto packed = PackValues(values, shape[0], shape[1]);
    if (!packed.ok()) return Annotate(packed.status(), name);
    return packed;
  }

  // The blocks as they are, part by part.
  absl::StatusOr<kernels::PackedMatrix> PackBlocks(const std::string& name) const {
    std::vector<kernels::QuantRows> rows;
    for (const TensorInfo& part : file_->Parts(name)) {
      RETURN_IF_ERROR(CheckFiniteBlocks(part, name));
      rows.push_back({*kernels::QuantFormatNamed(part.dtype), part.data, part.shape[0]});
    }
    auto packed = kernels::PackedMatrix::CreateQuantized(rows, file_->tensors().at(name).shape[1]);
    if (!packed.ok()) return Annotate(packed.status(), name);
    return packed;
  }

  const TensorFile* file_ = nullptr;
  DType dtype_ = DType::kFloat32;
  std::vector<TensorSpec> specs_;
  int64_t bytes_ = 0;
  absl::Status status_;
};

}  // namespace recollect::model
