// The calls that the row-wise operations are tested on, with their tolerances, and how they run on
// the CPU and on a device.
#pragma once

#include <vector>

#include "kernels/cpu/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/elementwise_operations.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::elementwise_cases {

enum class Op { kRmsNorm, kSwiGlu, kGeGlu, kGelu, kSigmoidGate, kAdd, kConvert };
inline constexpr Op kOps[] = {Op::kRmsNorm,     Op::kSwiGlu, Op::kGeGlu,  Op::kGelu,
                              Op::kSigmoidGate, Op::kAdd,    Op::kConvert};

// y[rows, width] from x; for RMSNorm, which takes rows and heads at a distance, within
// y[rows, stride].
struct Call {
  static constexpr int kWays = 6;  // of RunOnDevice
  Op op = Op::kRmsNorm;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t heads = 1;              // RMSNorm
  int64_t stride = 0;             // RMSNorm, conversion
  std::vector<float> x = {};      // what y may lie on, where it may
  std::vector<float> other = {};  // gain, gate or what is added
  int64_t gate_stride = 0;
  bool gain_by_head = false;  // RMSNorm
  float eps = 1e-6f;

  bool is_glu() const { return op == Op::kSwiGlu || op == Op::kGeGlu; }
  int64_t x_stride() const { return is_glu() ? 2 * width : stride; }
};

inline Call CallOf(Op op, int64_t rows, int64_t width) {
  Call call{.op = op, .rows = rows, .width = width, .stride = width};
  call.x = Normals(rows * call.x_stride(), 1, op == Op::kRmsNorm ? 1 : 4);
  if (op == Op::kRmsNorm) call.other = Normals(width, 2);
  if (op == Op::kAdd) call.other = Normals(rows * width, 2);
  if (op == Op::kSigmoidGate) {
    call.gate_stride = width + 5;
    call.other = Normals(rows * call.gate_stride, 2, 4);
  }
  return call;
}

// Rows [begin, end) of a call.
inline Call RowsOf(const Call& call, int64_t begin, int64_t end) {
  const auto cut = [&](const std::vector<float>& from, int64_t stride) {
    return std::vector<float>(from.begin() + begin * stride, from.begin() + end * stride);
  };
  Call rows = call;
  rows.rows = end - begin;
  rows.x = cut(call.x, call.x_stride());
  if (call.op == Op::kSigmoidGate) rows.other = cut(call.other, call.gate_stride);
  if (call.op == Op::kAdd) rows.other = cut(call.other, call.width);
  return rows;
}

inline void RunOnCpu(OpContext& ctx, const Call& call, const float* x, const float* other,
                     float* y) {
  const int64_t rows = call.rows, width = call.width, count = rows * width;
  switch (call.op) {
    case Op::kRmsNorm:
      return RmsNorm(ctx, x, other, call.eps, rows, width, y);
    case Op::kSwiGlu:
      return SwiGlu(ctx, x, rows, width, y);
    case Op::kGeGlu:
      return GeGlu(ctx, x, rows, width, y);
    case Op::kGelu:
      return Gelu(ctx, x, count, y);
    case Op::kSigmoidGate:
      return SigmoidGate(ctx, other, call.gate_stride, x, rows, width, y);
    case Op::kAdd:
      std::copy_n(x, count, y);
      return Add(ctx, other, count, y);
    case Op::kConvert:
      std::copy_n(x, count, y);
      return RoundToBf16(ctx, y, count);
  }
}

// A run returns y, conversions widened to floats: on the CPU of dense rows, in place as well where
// that is allowed.
inline std::vector<float> RunOnCpu(OpContext& ctx, const Call& call) {
  Guarded x(call.x), other(call.other), y(call.rows * call.width);
  const float* const operand = call.other.empty() ? nullptr : other.data();
  RunOnCpu(ctx, call, x.data(), operand, y.data());
  if (!call.is_glu()) {
    RunOnCpu(ctx, call, x.data(), operand, x.data());
    EXPECT_TRUE(SameBits(x.values(), y.values())) << "in place";
  }
  return y.values();
}

inline Operation OperationOf(const Call& call, const float* x, const float* other, DeviceRows y) {
  const int64_t rows = call.rows, width = call.width, count = rows * width;
  switch (call.op) {
    case Op::kRmsNorm:
      return RmsNormOp{.sizes = {rows, width, call.heads, call.stride},
                       .x = x,
                       .gain = call.other.empty() ? nullptr : other,
                       .gain_by_head = call.gain_by_head,
                       .eps = call.eps,
                       .y = y};
    case Op::kSwiGlu:
      return SwiGluOp{x, rows, width, y};
    case Op::kGeGlu:
      return GeGluOp{x, rows, width, y};
    case Op::kGelu:
      return GeluOp{x, count, y};
    case Op::kSigmoidGate:
      return SigmoidGateOp{other, call.gate_stride, x, rows, width, y};
    case Op::kAdd:
      return AddOp{other, count, static_cast<float*>(y.data)};
    case Op::kConvert:
      break;
  }
  return ConvertToBf16Op{x, width, static_cast<Bf16*>(y.data), rows, call.stride};
}

// The floats, rounded. The bits of a NaN are the device's own.
inline void ExpectRounded(const std::vector<Bf16>& narrow, const std::vector<float>& y) {
  ASSERT_EQ(narrow.size(), y.size());
  for (size_t i = 0; i < y.size(); ++i) {
    if (std::isnan(y[i])) {
      EXPECT_TRUE(std::isnan(narrow[i].ToFloat())) << "at " << i;
    } else {
      EXPECT_EQ(narrow[i].bits, Bf16::FromFloat(y[i]).bits) << "at " << i;
    }
  }
}

// y at addresses `shift` numbers past aligned ones, NaN where nothing was written.
inline std::vector<Bf16> RunIntoBf16(Device& device, const Call& call, size_t shift) {
  device_cases::Arrays arrays(device);
  const std::vector<Bf16> nothing(call.rows * call.stride, Bf16::FromFloat(std::nanf("")));
  Bf16* const y = arrays.Place(nothing, shift);
  EXPECT_EQ(device.Run(OperationOf(call, arrays.Place(call.x, shift),
                                   arrays.Place(call.other, shift), {y, DType::kBf16})),
            absl::OkStatus());
  return arrays.Read(y, call.rows * call.stride);
}

// At addresses up to two numbers past aligned ones, with y apart and, where that is allowed, in
// place. Into bf16 as well: the same numbers, rounded.
inline std::vector<float> RunOnDevice(Device& device, const Call& call, int way) {
  const size_t shift = way % 3;
  const bool in_place = call.op == Op::kAdd || (way >= 3 && !call.is_glu());
  if (call.op == Op::kConvert) {
    std::vector<float> wide;
    for (const Bf16 number : RunIntoBf16(device, call, shift)) wide.push_back(number.ToFloat());
    return wide;
  }
  device_cases::Arrays arrays(device);
  float* const x = arrays.Place(call.x, shift);
  const std::vector<float> nothing(call.rows * call.stride, std::nanf(""));
  float* const y = in_place ? x : arrays.Place(nothing, shift);
  EXPECT_EQ(device.Run(OperationOf(call, x, arrays.Place(call.other, shift), {y, DType::kFloat32})),
            absl::OkStatus());
  const std::vector<float> wide = arrays.Read(y, call.rows * call.stride);
  if (!in_place) ExpectRounded(RunIntoBf16(device, call, shift), wide);
  return wide;
}

inline double FactorOf(Op op) {
  switch (op) {
    case Op::kRmsNorm:
      return testing::kRmsNormFactor;
    case Op::kSwiGlu:
    case Op::kSigmoidGate:
      return testing::kGateFactor;
    case Op::kGeGlu:
    case Op::kGelu:
      return testing::kGeluFactor;
    case Op::kAdd:
    case Op::kConvert:
      return 0;
  }
  return 0;
}

inline void ExpectMatchesReference(const Call& call, const std::vector<float>& y) {
  const std::vector<float> expected = RunOnCpu(Scalar(), call);
  ASSERT_EQ(y.size(), expected.size());
  const bool gelu = call.op == Op::kGelu || call.op == Op::kGeGlu;
  for (size_t i = 0; i < y.size(); ++i) {
    // Results below the normal numbers have fewer bits.
    if (gelu && expected[i] != 0 && std::abs(expected[i]) < 1e-36f) continue;
    const size_t row = i / call.width, column = i % call.width;
    double gate = 0;
    if (call.op == Op::kSwiGlu) gate = call.x[row * 2 * call.width + column];
    if (call.op == Op::kSigmoidGate) gate = call.other[row * call.gate_stride + column];
    const double magnitude = expected[i] == 0 ? 0 : std::abs(expected[i]) * (1 + std::abs(gate));
    EXPECT_CLOSE(y[i], expected[i], magnitude, FactorOf(call.op)) << "at " << i;
  }
}

}  // namespace recollect::kernels::elementwise_cases
