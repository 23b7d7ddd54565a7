// The row-wise operations (elementwise.h) of a device, in fp32. Pointers are device memory at any
// address of their type, borrowed until the work is done. Operands at multiples of 16 bytes (Bf16:
// 8) whose rows are a multiple of four numbers apart are read and written fastest. A row's bits do
// not depend on the other rows, its place or its alignment; RMSNorm sums in an order that depends
// on the width alone. NaN and infinities appear where elementwise.h's operations have them.
// INVALID_ARGUMENT by CheckRows.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/numeric/bf16.h"
#include "base/types.h"
#include "kernels/block/check_sizes.h"

namespace recollect::kernels {

// Rows of results: fp32, or Bf16 for a matrix product that reads them, which are the same numbers
// rounded to nearest even.
struct DeviceRows {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  friend bool operator==(const DeviceRows&, const DeviceRows&) = default;
};

// Calls function(float*) or function(Bf16*). For implementations of a device.
template <typename Function>
absl::Status WithNumbers(const DeviceRows& rows, Function function) {
  if (rows.dtype == DType::kBf16) return function(static_cast<Bf16*>(rows.data));
  return function(static_cast<float*>(rows.data));
}
template <typename T, typename Function>
absl::Status WithNumbers(T* rows, Function function) {
  return function(rows);
}

// y[r, h, :] = x[r, h, :] / sqrt(mean(x[r, h, :]²) + eps) * gain
struct RmsNormOp {
  RowSizes sizes;
  const float* x = nullptr;     // [rows, heads, width], rows sizes.stride numbers apart
  const float* gain = nullptr;  // [width], or [heads, width] if gain_by_head; null: all ones
  bool gain_by_head = false;
  float eps = 0;
  DeviceRows y;  // laid out as x, which it may be
  friend bool operator==(const RmsNormOp&, const RmsNormOp&) = default;
};

// y[r, j] = silu(x[r, j]) * x[r, width + j]
struct SwiGluOp {
  const float* x = nullptr;  // [rows, 2 width]: gate, then up
  int64_t rows = 0;
  int64_t width = 0;
  DeviceRows y;  // [rows, width], not overlapping x
  friend bool operator==(const SwiGluOp&, const SwiGluOp&) = default;
};

// The same with GELU in place of silu.
struct GeGluOp {
  const float* x = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
  DeviceRows y;
  friend bool operator==(const GeGluOp&, const GeGluOp&) = default;
};

// The exact GELU of `count` numbers: relative error of a few ulp on both sides of zero.
struct GeluOp {
  const float* x = nullptr;
  int64_t count = 0;
  DeviceRows y;  // may be x
  friend bool operator==(const GeluOp&, const GeluOp&) = default;
};

// y[r, j] = sigmoid(gate[r, j]) * x[r, j]
struct SigmoidGateOp {
  const float* gate = nullptr;
  int64_t gate_stride = 0;   // floats between its rows, at least width
  const float* x = nullptr;  // [rows, width], dense
  int64_t rows = 0;
  int64_t width = 0;
  DeviceRows y;  // [rows, width], dense; may be x
  friend bool operator==(const SigmoidGateOp&, const SigmoidGateOp&) = default;
};

// y += x over `count` floats.
struct AddOp {
  const float* x = nullptr;
  int64_t count = 0;
  float* y = nullptr;
  friend bool operator==(const AddOp&, const AddOp&) = default;
};

// y[rows, width], dense, = x rounded to Bf16.
struct ConvertToBf16Op {
  const float* x = nullptr;
  int64_t width = 0;
  Bf16* y = nullptr;
  int64_t rows = 1;
  int64_t stride = width;  // floats between rows of x
  friend bool operator==(const ConvertToBf16Op&, const ConvertToBf16Op&) = default;
};

}  // namespace recollect::kernels
