#include "model/device/device_context.h"

#include "base/status.h"

namespace recollect::model {

using kernels::DeviceRows;

absl::StatusOr<void*> DeviceContext::Bytes(DeviceScratch slot, int64_t bytes) {
  return kernels::AtLeast(device, bytes, scratch[static_cast<size_t>(slot)]);
}

absl::StatusOr<float*> DeviceContext::Floats(DeviceScratch slot, int64_t count) {
  ASSIGN_OR_RETURN(void* const memory, Bytes(slot, count * int64_t{sizeof(float)}));
  return static_cast<float*>(memory);
}

absl::StatusOr<DeviceRows> DeviceContext::Operand(DeviceScratch slot, int64_t count) {
  ASSIGN_OR_RETURN(void* const memory, Bytes(slot, count * kernels::BytesOf(dtype)));
  return DeviceRows{memory, dtype};
}

absl::StatusOr<DeviceRows> DeviceContext::AsOperand(DeviceScratch slot, const float* x,
                                                    int64_t count) {
  if (dtype == DType::kFloat32) return DeviceRows{const_cast<float*>(x), dtype};
  ASSIGN_OR_RETURN(const DeviceRows rounded, Operand(slot, count));
  RETURN_IF_ERROR(device.Run(kernels::ConvertToBf16Op{x, count, static_cast<Bf16*>(rounded.data)}));
  return rounded;
}

absl::Status DeviceContext::Upload(DeviceTables& tables) {
  ASSIGN_OR_RETURN(void* const memory, Bytes(DeviceScratch::kTables, tables.bytes()));
  return tables.Upload(device, memory);
}

absl::Status DeviceContext::Copy(const std::vector<kernels::DeviceCopy>& copies) {
  if (copies.empty()) return absl::OkStatus();
  DeviceTables tables;
  const CopyTable table = CopyTable::Add(tables, copies);
  RETURN_IF_ERROR(Upload(tables));
  return table.Run(device, tables);
}

absl::StatusOr<float*> DeviceContext::Gather(std::span<const float* const> rows) {
  ASSIGN_OR_RETURN(float* const gathered,
                   Floats(DeviceScratch::kRows, std::ssize(rows) * config.d));
  std::vector<kernels::DeviceCopy> copies;
  for (const float* row : rows) {
    copies.push_back(
        {row, gathered + std::ssize(copies) * config.d, config.d * int64_t{sizeof(float)}});
  }
  RETURN_IF_ERROR(Copy(copies));
  return gathered;
}

absl::Status DeviceContext::RmsNorm(const float* x, int64_t rows, const float* gain, float eps,
                                    const DeviceRows& y) {
  return device.Run(kernels::RmsNormOp{
      .sizes = {.rows = rows, .width = config.d}, .x = x, .gain = gain, .eps = eps, .y = y});
}

absl::Status DeviceContext::Product(const DeviceMatrix& matrix, const DeviceRows& x, int64_t rows,
                                    float* y, bool add) {
  return device.Run(
      kernels::GemmOp{.shape = {.n = matrix.n, .k = matrix.k, .in = dtype, .add = add},
                      .weights = matrix.data,
                      .x = x.data,
                      .rows = rows,
                      .y = y});
}

}  // namespace recollect::model
