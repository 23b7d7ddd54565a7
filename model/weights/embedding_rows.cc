#include "model/weights/embedding_rows.h"

#include "base/check.h"
#include "base/status.h"
#include "kernels/quant/quant_blocks.h"
#include "model/weights/tensor_floats.h"

namespace recollect::model {

absl::StatusOr<EmbeddingRows> EmbeddingRows::Read(const TensorFile& file, const std::string& name) {
  EmbeddingRows rows;
  const std::vector<int64_t>& shape = file.tensors().at(name).shape;
  const std::vector<TensorInfo> parts = file.Parts(name);
  RECOLLECT_CHECK(shape.size() == 2 && parts.size() == 1);
  const TensorInfo& info = parts.front();
  rows.dtype_ = info.dtype;
  rows.width_ = shape[1];
  rows.row_bytes_ = info.bytes / shape[0];
  rows.data_.assign(info.data, info.data + info.bytes);
  std::vector<float> row(static_cast<size_t>(rows.width_));
  RETURN_IF_ERROR(
      Annotate(DecodeFloats(info.dtype, rows.data_.data(), rows.width_, row.data()), name));
  if (kernels::QuantFormatNamed(info.dtype).has_value()) {
    RETURN_IF_ERROR(CheckFiniteBlocks(info, name));
    return rows;
  }
  for (int64_t id = 0; id < shape[0]; ++id) {
    rows.Read(static_cast<int32_t>(id), row.data());
    RETURN_IF_ERROR(CheckFinite(row, id * rows.width_, name));
  }
  return rows;
}

void EmbeddingRows::Read(int32_t id, float* out) const {
  RECOLLECT_CHECK(
      DecodeFloats(dtype_, data_.data() + id * row_bytes_, width_, out).ok());  // Read has tried it
}

}  // namespace recollect::model
