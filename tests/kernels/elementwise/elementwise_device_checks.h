// What any device run of the row-wise operations must do, checked on the host run of the kernels'
// blocks and on a GPU alike. A runner has the memory that its operations work on, Array<T>, and
//   Launch(call, x, other, y)
// which runs a call on pointers into such arrays, y being float* or Bf16*.
#ifndef RECOLLECT_TESTS_KERNELS_ELEMENTWISE_ELEMENTWISE_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_ELEMENTWISE_ELEMENTWISE_DEVICE_CHECKS_H_

#include <limits>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels::elementwise_cases {

enum class Op { kRmsNorm, kSwiGlu, kGeGlu, kGelu, kSigmoidGate, kAdd, kConvert };
inline constexpr Op kOps[] = {Op::kRmsNorm,     Op::kSwiGlu, Op::kGeGlu,  Op::kGelu,
                              Op::kSigmoidGate, Op::kAdd,    Op::kConvert};

// y[rows, width] from x; for RMSNorm, which takes rows and heads at a distance, within
// y[rows, stride].
struct Call {
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

// The kernels' thread blocks, on the host.
struct HostRunner {
  template <typename T>
  using Array = HostArray<T>;
  HostOrder order = HostOrder::kPhases;

  template <typename Function, typename Out>
  void Rows(const cuda::RowArgs<Out>& args) const {
    const int64_t stride = std::max({args.a_stride, args.b_stride, args.y_stride});
    EXPECT_EQ(RowsOnHost<Function>(order, "rows", stride, args), absl::OkStatus());
  }

  template <typename Out>
  void Launch(const Call& call, float* x, const float* other, Out* y) const {
    const int64_t rows = call.rows, width = call.width, count = rows * width;
    if constexpr (std::is_same_v<Out, float>) {
      if (call.op == Op::kAdd) return Rows<cuda::Sum>(cuda::FlatArgs(y, other, count, y));
    }
    switch (call.op) {
      case Op::kRmsNorm: {
        const float* gain = call.other.empty() ? nullptr : other;
        const RowSizes sizes = {rows, width, call.heads, call.stride};
        absl::Status status = absl::InternalError("no such call");
        if (!call.gain_by_head) {
          status = RmsNormOnHost(order, sizes, x, gain, call.eps, y);
        } else if constexpr (std::is_same_v<Out, float>) {
          status = RmsNormByHeadOnHost(order, sizes, x, gain, call.eps, y);
        }
        EXPECT_EQ(status, absl::OkStatus());
        return;
      }
      case Op::kSwiGlu:
        return Rows<cuda::SiluProduct>(cuda::GluArgs(x, rows, width, y));
      case Op::kGeGlu:
        return Rows<cuda::GeluProduct>(cuda::GluArgs(x, rows, width, y));
      case Op::kGelu:
        return Rows<cuda::GeluAlone>(cuda::FlatArgs(x, nullptr, count, y));
      case Op::kSigmoidGate:
        return Rows<cuda::SigmoidProduct>(
            cuda::GateArgs(other, call.gate_stride, x, rows, width, y));
      case Op::kAdd:
        ADD_FAILURE() << "sums are floats";
        return;
      case Op::kConvert:
        if constexpr (std::is_same_v<Out, Bf16>) {
          return Rows<cuda::Unchanged>(cuda::StridedArgs(x, call.stride, rows, width, y));
        }
        ADD_FAILURE() << "conversions are to Bf16";
        return;
    }
  }
};

// y, NaN where nothing was written. Sums are always in place; conversions are widened to floats.
template <typename Out = float, typename Runner>
std::vector<Out> Run(const Runner& runner, const Call& call, size_t shift = 0,
                     bool in_place = false) {
  typename Runner::template Array<float> x(call.x, shift), other(call.other, shift);
  if constexpr (std::is_same_v<Out, float>) {
    if (call.op == Op::kConvert) {
      std::vector<float> wide;
      for (const Bf16 number : Run<Bf16>(runner, call, shift)) wide.push_back(number.ToFloat());
      return wide;
    }
    if (in_place || call.op == Op::kAdd) {
      runner.Launch(call, x.data(), other.data(), x.data());
      return x.Download();
    }
  }
  Out nan;
  cuda::Put(std::nanf(""), &nan);
  typename Runner::template Array<Out> y(std::vector<Out>(call.rows * call.stride, nan), shift);
  runner.Launch(call, x.data(), other.data(), y.data());
  return y.Download();
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

// Of a call of dense rows.
inline std::vector<float> Reference(const Call& call) {
  const int64_t rows = call.rows, width = call.width;
  const float* x = call.x.data();
  const float* other = call.other.empty() ? nullptr : call.other.data();
  std::vector<float> y(rows * width);
  switch (call.op) {
    case Op::kRmsNorm:
      RmsNorm(Scalar(), x, other, call.eps, rows, width, y.data());
      break;
    case Op::kSwiGlu:
      SwiGlu(Scalar(), x, rows, width, y.data());
      break;
    case Op::kGeGlu:
      GeGlu(Scalar(), x, rows, width, y.data());
      break;
    case Op::kGelu:
      Gelu(Scalar(), x, rows * width, y.data());
      break;
    case Op::kSigmoidGate:
      SigmoidGate(Scalar(), other, call.gate_stride, x, rows, width, y.data());
      break;
    case Op::kAdd:
      y = call.x;
      Add(Scalar(), other, rows * width, y.data());
      break;
    case Op::kConvert:
      y = call.x;
      RoundToBf16(Scalar(), y.data(), rows * width);
      break;
  }
  return y;
}

inline void ExpectMatchesReference(const Call& call, const std::vector<float>& y) {
  const std::vector<float> expected = Reference(call);
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

// Both kinds of results, at every alignment, in place where that is allowed: the same bits.
template <typename Runner>
void ExpectMatchesReferenceEverywhere(const Runner& runner, const Call& call) {
  const std::vector<float> y = Run(runner, call);
  ExpectMatchesReference(call, y);
  for (size_t shift : {0, 1, 2}) {
    SCOPED_TRACE(absl::StrCat("shift ", shift));
    EXPECT_TRUE(SameBits(Run(runner, call, shift), y));
    if (!call.is_glu()) {
      EXPECT_TRUE(SameBits(Run(runner, call, shift, true), y)) << "in place";
    }
    if (call.op != Op::kAdd) {
      ExpectRounded(Run<Bf16>(runner, call, shift), call.op == Op::kConvert ? call.x : y);
    }
  }
}

template <typename Runner>
void CheckMatchesReference(const Runner& runner) {
  for (Op op : kOps) {
    // On either side of a piece, of a warp's row, and of a block of pieces.
    for (int64_t width :
         {0, 1, 3, 4, 5, 7, 8, 17, 31, 64, 100, 640, 1022, 1024, 1025, 1028, 4099}) {
      for (int64_t rows : {0, 1, 3, 9}) {
        SCOPED_TRACE(absl::StrCat("op ", static_cast<int>(op), ", ", rows, " x ", width));
        Call call = CallOf(op, rows, width);
        ExpectMatchesReferenceEverywhere(runner, call);
        if (op != Op::kRmsNorm) continue;
        call.other.clear();  // no gain
        ExpectMatchesReferenceEverywhere(runner, call);
      }
    }
  }
}

// GELU near zero, far from it on both sides, and the gates where they saturate.
template <typename Runner>
void CheckSizesOfNumbers(const Runner& runner) {
  for (Op op : {Op::kGelu, Op::kGeGlu, Op::kSwiGlu, Op::kSigmoidGate}) {
    for (float scale : {1e-4f, 0.1f, 2.0f}) {
      SCOPED_TRACE(absl::StrCat("op ", static_cast<int>(op), ", scale ", scale));
      Call call = CallOf(op, 3, 333);
      for (float& number : op == Op::kSigmoidGate ? call.other : call.x) number *= scale;
      ExpectMatchesReference(call, Run(runner, call));
    }
  }
  const std::vector<float> far = {-1e30f, -200, -100, -15.5f, -14.5f, 14.5f, 15.5f, 100, 1e30f};
  const auto n = static_cast<int64_t>(far.size());
  const std::vector<float> gelu =
      Run(runner, {.op = Op::kGelu, .rows = 1, .width = n, .stride = n, .x = far});
  const std::vector<float> gates = Run(runner, {.op = Op::kSigmoidGate,
                                                .rows = 1,
                                                .width = n,
                                                .stride = n,
                                                .x = std::vector<float>(n, 1.0f),
                                                .other = far,
                                                .gate_stride = n});
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_NEAR(gelu[i], far[i] > 0 ? far[i] : 0, 1e-37f) << far[i];
    EXPECT_NEAR(gates[i], far[i] > 0 ? 1 : 0, std::abs(far[i]) < 20 ? 1e-6f : 1e-37f) << far[i];
  }
}

template <typename Runner>
void CheckNanAndInfinityStayInPlace(const Runner& runner) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float strange[] = {std::nanf(""), kInf, -kInf, 0.0f, -0.0f};
  for (Op op : kOps) {
    SCOPED_TRACE(static_cast<int>(op));
    Call call = CallOf(op, 9, 35);
    for (size_t i = 0; i < call.x.size(); i += 17) call.x[i] = strange[i / 17 % 5];
    if (op != Op::kRmsNorm) {
      for (size_t i = 5; i < call.other.size(); i += 13) call.other[i] = strange[i / 13 % 5];
    }
    ExpectMatchesReferenceEverywhere(runner, call);
  }
}

// All bits, of a NaN as well, are those of the base.
template <typename Runner>
void CheckRoundingIsThatOfTheBase(const Runner& runner) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1234567) {
    x.push_back(cuda::FromBits(static_cast<uint32_t>(bits)));
  }
  for (uint32_t bits : {0x3f808000u, 0x3f818000u, 0x3f807fffu, 0x7f7fffffu, 0xff7f8000u, 1u,
                        0x7f800001u, 0xffffffffu, 0x80000000u}) {
    x.push_back(cuda::FromBits(bits));
  }
  const auto n = static_cast<int64_t>(x.size());
  const Call call = {.op = Op::kConvert, .rows = 1, .width = n, .stride = n, .x = x};
  const std::vector<float> wide = Run(runner, call);
  const std::vector<Bf16> narrow = Run<Bf16>(runner, call);
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_EQ(narrow[i].bits, Bf16::FromFloat(x[i]).bits) << cuda::BitsOf(x[i]);
    EXPECT_EQ(cuda::BitsOf(wide[i]), cuda::BitsOf(recollect::RoundToBf16(x[i])))
        << cuda::BitsOf(x[i]);
  }
}

// Each row alone, and two rows of many: at other places of a block, and aligned otherwise.
template <typename Runner>
void CheckARowHasTheSameBitsInAnyBatch(const Runner& runner) {
  for (Op op : kOps) {
    for (int64_t width : {1, 30, 640, 1100}) {
      const int64_t rows = 21;
      const Call call = CallOf(op, rows, width);
      const std::vector<float> whole = Run(runner, call);
      for (int64_t step : {1, 2}) {
        for (int64_t begin = 0; begin < rows; begin += step) {
          const int64_t end = std::min(begin + step, rows);
          const std::vector<float> some = Run(runner, RowsOf(call, begin, end), begin % 4);
          EXPECT_TRUE(SameBits(some, std::span(whole).subspan(begin * width, some.size())))
              << "op " << static_cast<int>(op) << ", width " << width << ", row " << begin;
        }
      }
    }
  }
}

// Rows at a distance and heads side by side have the bits of dense rows; what lies between them
// stays.
template <typename Runner>
void CheckRowsAtADistance(const Runner& runner) {
  for (int64_t heads : {1, 3}) {
    for (int64_t width : {6, 64, 1100}) {
      for (Op op : {Op::kRmsNorm, Op::kConvert}) {
        SCOPED_TRACE(absl::StrCat("op ", static_cast<int>(op), ", ", heads, " heads of ", width));
        const int64_t rows = 5, inside = heads * width, stride = inside + 7;
        Call call = CallOf(op, rows, width);
        if (op == Op::kConvert) call.width = inside;
        call.heads = heads;
        call.stride = stride;
        call.x = Normals(rows * stride, 3);
        Call dense = CallOf(op, rows * heads, width);
        for (int64_t i = 0; i < rows * inside; ++i) {
          dense.x[i] = call.x[i / inside * stride + i % inside];
        }
        const std::vector<float> expected = Run(runner, dense);
        const std::vector<float> y = Run(runner, call, 1, true);
        if (op == Op::kConvert) {  // to dense rows
          EXPECT_TRUE(SameBits(std::span(y).first(expected.size()), expected));
          for (size_t i = expected.size(); i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
          continue;
        }
        for (int64_t i = 0; i < rows * stride; ++i) {
          const int64_t row = i / stride, column = i % stride;
          EXPECT_EQ(y[i], column < inside ? expected[row * inside + column] : call.x[i]) << i;
        }
      }
    }
  }
}

// Every head has the bits of RMSNorm with its gain, in place, too.
template <typename Runner>
void CheckEveryHeadHasItsGain(const Runner& runner) {
  for (int64_t width : {1, 6, 64, 1100}) {
    const int64_t rows = 5, heads = 3;
    Call call = CallOf(Op::kRmsNorm, rows, width);
    call.heads = heads;
    call.stride = heads * width + 7;
    call.x = Normals(rows * call.stride, 3);
    call.other = Normals(heads * width, 4);
    call.gain_by_head = true;
    const std::vector<float> y = Run(runner, call, 1), in_place = Run(runner, call, 2, true);
    for (int64_t head = 0; head < heads; ++head) {
      Call alone = call;
      alone.gain_by_head = false;
      const auto gain = call.other.begin() + head * width;
      alone.other.assign(gain, gain + width);
      const std::vector<float> expected = Run(runner, alone);
      for (int64_t i = 0; i < rows * width; ++i) {
        const int64_t at = i / width * call.stride + head * width + i % width;
        EXPECT_EQ(cuda::BitsOf(y[at]), cuda::BitsOf(expected[at])) << width << ", at " << at;
        EXPECT_EQ(cuda::BitsOf(in_place[at]), cuda::BitsOf(expected[at])) << width << ", at " << at;
      }
    }
  }
}

}  // namespace recollect::kernels::elementwise_cases

#endif  // RECOLLECT_TESTS_KERNELS_ELEMENTWISE_ELEMENTWISE_DEVICE_CHECKS_H_
