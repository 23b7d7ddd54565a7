#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/op_test.h"
#include "tests/kernels/elementwise/elementwise_cases.h"

namespace recollect::kernels {
namespace {

using elementwise_cases::Call;
using elementwise_cases::CallOf;
using elementwise_cases::ExpectMatchesReference;
using elementwise_cases::kOps;
using elementwise_cases::Op;

constexpr float kInf = std::numeric_limits<float>::infinity();

class ElementwiseTest : public OpTest<Call> {};
class ElementwiseDeviceTest : public ElementwiseTest {};

TEST_P(ElementwiseTest, MatchesReference) {
  for (Op op : kOps) {
    // On either side of a vector, and of a device's piece, warp's row and block of pieces.
    for (int64_t width : {0,  1,  3,  4,   5,   7,   8,    15,   16,   17,   31,
                          63, 64, 65, 100, 256, 640, 1022, 1024, 1025, 1028, 4099}) {
      for (int64_t rows : {0, 1, 3, 9}) {
        SCOPED_TRACE(absl::StrCat("op ", static_cast<int>(op), ", ", rows, " x ", width));
        Call call = CallOf(op, rows, width);
        ExpectMatchesReference(call, RunInAllWays(call));
        if (op != Op::kRmsNorm) continue;
        call.other.clear();  // no gain
        ExpectMatchesReference(call, RunInAllWays(call));
      }
    }
  }
}

// GELU near zero, far from it on both sides, and the gates where they saturate.
TEST_P(ElementwiseTest, MatchesReferenceForNumbersOfAnySize) {
  for (Op op : {Op::kGelu, Op::kGeGlu, Op::kSwiGlu, Op::kSigmoidGate}) {
    for (float scale : {1e-4f, 0.0025f, 0.1f, 0.25f, 2.0f}) {
      for (int64_t width : {1, 15, 64, 65, 333}) {
        SCOPED_TRACE(absl::StrCat("op ", static_cast<int>(op), ", ", width, " of scale ", scale));
        Call call = CallOf(op, 3, width);
        for (float& number : op == Op::kSigmoidGate ? call.other : call.x) number *= scale;
        ExpectMatchesReference(call, Run(call));
      }
    }
  }
  const std::vector<float> far = {-kInf, -1e30f, -200, -100, -88, -15.5f, -14.5f,
                                  14.5f, 15.5f,  88,   100,  200, 1e30f,  kInf};
  const auto n = static_cast<int64_t>(far.size());
  const std::vector<float> gelu =
      Run({.op = Op::kGelu, .rows = 1, .width = n, .stride = n, .x = far});
  const std::vector<float> gates = Run({.op = Op::kSigmoidGate,
                                        .rows = 1,
                                        .width = n,
                                        .stride = n,
                                        .x = std::vector<float>(n, 1.0f),
                                        .other = far,
                                        .gate_stride = n});
  for (int64_t i = 0; i < n; ++i) {
    if (far[i] > 0) {
      EXPECT_EQ(gelu[i], far[i]);
    } else {
      EXPECT_NEAR(gelu[i], 0, 1e-37f) << far[i];
    }
    EXPECT_NEAR(gates[i], far[i] > 0 ? 1 : 0, std::abs(far[i]) < 20 ? 1e-6f : 1e-37f) << far[i];
  }
}

TEST_P(ElementwiseTest, NanAndInfinityStayInPlace) {
  const float strange[] = {std::nanf(""), kInf, -kInf, 0.0f, -0.0f};
  for (Op op : kOps) {
    SCOPED_TRACE(static_cast<int>(op));
    Call call = CallOf(op, 9, 35);
    for (size_t i = 0; i < call.x.size(); i += 17) call.x[i] = strange[i / 17 % 5];
    if (op != Op::kRmsNorm) {
      for (size_t i = 5; i < call.other.size(); i += 13) call.other[i] = strange[i / 13 % 5];
    }
    ExpectMatchesReference(call, RunInAllWays(call));
  }
}

// All bits, of a NaN as well, are those of the base.
TEST_P(ElementwiseTest, RoundingIsThatOfTheBase) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1234567) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (uint32_t bits : {0x3f808000u, 0x3f818000u, 0x3f807fffu, 0x7f7fffffu, 0xff7f8000u, 1u,
                        0x7f800001u, 0xffffffffu, 0x80000000u}) {
    x.push_back(std::bit_cast<float>(bits));
  }
  const auto n = static_cast<int64_t>(x.size());
  const std::vector<float> rounded =
      RunInAllWays({.op = Op::kConvert, .rows = 1, .width = n, .stride = n, .x = x});
  for (float& number : x) number = recollect::RoundToBf16(number);
  EXPECT_TRUE(SameBits(rounded, x));
}

// Each row alone, and two rows of many: at other places of a block, and aligned otherwise.
TEST_P(ElementwiseTest, ARowHasTheSameBitsInAnyBatch) {
  for (Op op : kOps) {
    for (int64_t width : {1, 30, 640, 1100}) {
      const int64_t rows = 21;
      const Call call = CallOf(op, rows, width);
      const std::vector<float> whole = Run(call);
      for (int64_t step : {1, 2}) {
        for (int64_t begin = 0; begin < rows; begin += step) {
          const std::vector<float> some = Run(RowsOf(call, begin, std::min(begin + step, rows)));
          EXPECT_TRUE(SameBits(some, std::span(whole).subspan(begin * width, some.size())))
              << "op " << static_cast<int>(op) << ", width " << width << ", row " << begin;
        }
      }
    }
  }
}

// Rows at a distance and heads side by side have the bits of dense rows; what lies between them
// stays.
TEST_P(ElementwiseDeviceTest, RowsAtADistance) {
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
        const std::vector<float> expected = Run(dense);
        const std::vector<float> y = RunOnDevice(*device_, call, 4);
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
TEST_P(ElementwiseDeviceTest, EveryHeadHasItsGain) {
  for (int64_t width : {1, 6, 64, 1100}) {
    const int64_t rows = 5, heads = 3;
    Call call = CallOf(Op::kRmsNorm, rows, width);
    call.heads = heads;
    call.stride = heads * width + 7;
    call.x = Normals(rows * call.stride, 3);
    call.other = Normals(heads * width, 4);
    call.gain_by_head = true;
    const std::vector<float> y = RunOnDevice(*device_, call, 1);
    const std::vector<float> in_place = RunOnDevice(*device_, call, 5);
    for (int64_t head = 0; head < heads; ++head) {
      Call alone = call;
      alone.gain_by_head = false;
      const auto gain = call.other.begin() + head * width;
      alone.other.assign(gain, gain + width);
      const std::vector<float> expected = Run(alone);
      for (int64_t i = 0; i < rows * width; ++i) {
        const int64_t at = i / width * call.stride + head * width + i % width;
        EXPECT_EQ(std::bit_cast<uint32_t>(y[at]), std::bit_cast<uint32_t>(expected[at]))
            << width << ", at " << at;
        EXPECT_EQ(std::bit_cast<uint32_t>(in_place[at]), std::bit_cast<uint32_t>(expected[at]))
            << width << ", at " << at;
      }
    }
  }
}

#ifdef RECOLLECT_TEST_ON_CUDA
TEST_P(ElementwiseDeviceTest, HasTheBitsOfTheHost) {
  HostDevice host;
  for (Op op : kOps) {
    for (int64_t width : {33, 768, 5632}) {
      const Call call = CallOf(op, 301, width);
      EXPECT_TRUE(SameBits(RunInAllWays(call), RunOnDevice(host, call, 0)))
          << "op " << static_cast<int>(op) << ", width " << width;
    }
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Runners, ElementwiseTest, ::testing::ValuesIn(Runners()), NameOfRunner);
INSTANTIATE_TEST_SUITE_P(Runners, ElementwiseDeviceTest, ::testing::Values(Runner()), NameOfRunner);

TEST(LogSumExpTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t count : {1, 3, 8, 15, 16, 17, 31, 63, 64, 65, 100, 256, 640}) {
      SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", count));
      Guarded x(Normals(count, 1, 6));
      x.data()[count / 2] = 40;
      if (count > 2) x.data()[0] = x.data()[count - 1] = -kInf;
      EXPECT_NEAR(LogSumExp(ctx, x.data(), count), LogSumExp(Scalar(), x.data(), count), 1e-5);
      for (int64_t i = 0; i < count; ++i) x.data()[i] = 0;
      EXPECT_NEAR(LogSumExp(ctx, x.data(), count), std::log(static_cast<double>(count)), 1e-5);
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
