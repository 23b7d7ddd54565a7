#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels {
namespace {

using namespace recollect::testing;  // factors

constexpr int64_t kWidths[] = {1, 3, 8, 15, 16, 17, 31, 63, 64, 65, 100, 256, 640};
constexpr int64_t kRows[] = {0, 1, 3};

TEST(RmsNormTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t width : kWidths) {
      for (int64_t rows : kRows) {
        for (bool with_gain : {false, true}) {
          SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", rows, " x ", width));
          Guarded x(Normals(rows * width, 1)), gain(Normals(width, 2));
          const float* g = with_gain ? gain.data() : nullptr;
          Guarded y(rows * width), expected(rows * width);
          RmsNorm(ctx, x.data(), g, 1e-6f, rows, width, y.data());
          RmsNorm(Scalar(), x.data(), g, 1e-6f, rows, width, expected.data());
          for (int64_t i = 0; i < rows * width; ++i) {
            EXPECT_CLOSE(y[i], expected[i], std::abs(expected[i]), kRmsNormFactor);
          }
          // In place, and row by row: the same bits.
          Guarded in_place(x.values());
          for (int64_t r = 0; r < rows; ++r) {
            float* row = in_place.data() + r * width;
            RmsNorm(ctx, row, g, 1e-6f, 1, width, row);
          }
          EXPECT_TRUE(SameBits(in_place.values(), y.values()));
        }
      }
    }
  }
}

TEST(SwiGluTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t width : kWidths) {
      for (int64_t rows : kRows) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", rows, " x ", width));
        Guarded x(Normals(rows * 2 * width, 1, 4)), y(rows * width), expected(rows * width);
        SwiGlu(ctx, x.data(), rows, width, y.data());
        SwiGlu(Scalar(), x.data(), rows, width, expected.data());
        for (int64_t i = 0; i < rows * width; ++i) {
          const double gate = x[i / width * 2 * width + i % width];
          EXPECT_CLOSE(y[i], expected[i], std::abs(expected[i]) * (1 + std::abs(gate)),
                       kGateFactor);
        }
      }
    }
  }
}

TEST(GeGluTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t width : kWidths) {
      for (int64_t rows : kRows) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", rows, " x ", width));
        Guarded x(Normals(rows * 2 * width, 1, 4)), y(rows * width), expected(rows * width);
        GeGlu(ctx, x.data(), rows, width, y.data());
        GeGlu(Scalar(), x.data(), rows, width, expected.data());
        for (int64_t i = 0; i < rows * width; ++i) {
          // Results below the normal numbers have fewer bits.
          if (std::abs(expected[i]) < 1e-36f) continue;
          EXPECT_CLOSE(y[i], expected[i], std::abs(expected[i]), kGeluFactor);
        }
      }
    }
  }
}

TEST(GeluTest, MatchesReferenceOnBothSidesOfZero) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t count : kWidths) {
      for (float scale : {0.01f, 1.0f, 4.0f}) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", count, " of scale ", scale));
        Guarded x(Normals(count, 1, scale)), y(count), expected(count);
        Gelu(ctx, x.data(), count, y.data());
        Gelu(Scalar(), x.data(), count, expected.data());
        for (int64_t i = 0; i < count; ++i) {
          // Results below the normal numbers have fewer bits.
          if (std::abs(expected[i]) < 1e-36f) continue;
          EXPECT_CLOSE(y[i], expected[i], std::abs(expected[i]), kGeluFactor) << x[i];
        }
        // In place, and one by one: the same bits.
        Guarded in_place(x.values());
        for (int64_t i = 0; i < count; ++i) {
          Gelu(ctx, in_place.data() + i, 1, in_place.data() + i);
        }
        EXPECT_TRUE(SameBits(in_place.values(), y.values()));
      }
    }
  }
}

TEST(GeluTest, ExtremesSaturateAndNanStaysNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> inputs = {-kInf, -1e30f, -100,  -15.5f, -14.5f, -0.0f,
                                     0,     14.5f,  15.5f, 100,    1e30f,  kInf};
  const auto n = static_cast<int64_t>(inputs.size());
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(IsaName(isa));
    OpContext ctx(isa);
    Guarded y(n);
    Gelu(ctx, inputs.data(), n, y.data());
    for (int64_t i = 0; i < n; ++i) {
      if (inputs[i] > 0) {
        EXPECT_EQ(y[i], inputs[i]);
      } else {
        EXPECT_NEAR(y[i], 0.0f, 1e-37f) << inputs[i];
      }
    }
    const float nan = std::nanf("");
    Gelu(ctx, &nan, 1, y.data());
    EXPECT_TRUE(std::isnan(y[0]));
  }
}

TEST(SigmoidGateTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t width : kWidths) {
      for (int64_t rows : kRows) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", rows, " x ", width));
        const int64_t stride = width + 5;
        Guarded gate(Normals(rows * stride, 1, 4)), x(Normals(rows * width, 2));
        Guarded y(rows * width), expected(rows * width);
        SigmoidGate(ctx, gate.data(), stride, x.data(), rows, width, y.data());
        SigmoidGate(Scalar(), gate.data(), stride, x.data(), rows, width, expected.data());
        for (int64_t i = 0; i < rows * width; ++i) {
          const double z = gate[i / width * stride + i % width];
          EXPECT_CLOSE(y[i], expected[i], std::abs(expected[i]) * (1 + std::abs(z)), kGateFactor);
        }
        Guarded in_place(x.values());
        SigmoidGate(ctx, gate.data(), stride, in_place.data(), rows, width, in_place.data());
        EXPECT_TRUE(SameBits(in_place.values(), y.values()));
      }
    }
  }
}

TEST(SigmoidGateTest, ExtremeGatesSaturateAndNanStaysNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> gates = {-kInf, -1e30f, -200, -100, -88, 88, 100, 200, 1e30f, kInf};
  const std::vector<float> ones(gates.size(), 1.0f);
  const auto n = static_cast<int64_t>(gates.size());
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(IsaName(isa));
    OpContext ctx(isa);
    Guarded y(n);
    SigmoidGate(ctx, gates.data(), n, ones.data(), 1, n, y.data());
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_NEAR(y[i], gates[i] < 0 ? 0.0f : 1.0f, 1e-37f) << gates[i];
    }
    const std::vector<float> nan(n, std::nanf(""));
    SigmoidGate(ctx, nan.data(), n, ones.data(), 1, n, y.data());
    for (int64_t i = 0; i < n; ++i) EXPECT_TRUE(std::isnan(y[i]));
  }
}

TEST(LogSumExpTest, MatchesReference) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t count : kWidths) {
      SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", count));
      Guarded x(Normals(count, 1, 6));
      x.data()[count / 2] = 40;
      if (count > 2) x.data()[0] = x.data()[count - 1] = -kInf;
      const float expected = LogSumExp(Scalar(), x.data(), count);
      EXPECT_NEAR(LogSumExp(ctx, x.data(), count), expected, 1e-5);
      for (int64_t i = 0; i < count; ++i) x.data()[i] = 0;
      EXPECT_NEAR(LogSumExp(ctx, x.data(), count), std::log(static_cast<double>(count)), 1e-5);
    }
  }
}

TEST(AddTest, IsExact) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t count : kWidths) {
      SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", count));
      Guarded x(Normals(count, 1)), y(Normals(count, 2));
      std::vector<float> expected = y.values();
      for (int64_t i = 0; i < count; ++i) expected[i] += x[i];
      Add(ctx, x.data(), count, y.data());
      EXPECT_TRUE(SameBits(y.values(), expected));
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
