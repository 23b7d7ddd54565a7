#include "kernels/cuda/cuda_math.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "base/numeric/bf16.h"
#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels::cuda {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(CudaMathTest, ExpIsWithinTwoUlp) {
  double worst = 0;
  for (double x = -87.3; x < 88.7; x += 0.00037) {
    const auto argument = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(argument));
    const auto rounded = static_cast<float>(expected);
    const double ulp = std::nextafter(rounded, kInf) - rounded;
    worst = std::max(worst, std::abs(Exp(argument) - expected) / ulp);
  }
  EXPECT_LE(worst, 2.0);
}

TEST(CudaMathTest, ExpAtItsEnds) {
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Exp(-0.0f), 1);
  EXPECT_EQ(Exp(-kInf), 0);
  EXPECT_EQ(Exp(-104.1f), 0);
  EXPECT_EQ(Exp(kInf), kInf);
  EXPECT_EQ(Exp(88.74f), kInf);
  EXPECT_TRUE(std::isnan(Exp(std::nanf(""))));
  // Results that are not normal lose bits, not their size.
  for (float x : {-88.0f, -95.0f, -103.0f}) EXPECT_NEAR(Exp(x) / std::exp(x), 1, 0.5);
  for (float x = -104; x < 88.7f; x += 0.25f) EXPECT_LE(Exp(x), Exp(x + 0.25f)) << x;
}

TEST(CudaMathTest, GeluIsWithinItsFactorOnBothSidesOfZero) {
  for (double x = -13; x < 13; x += 0.000137) {
    const auto argument = static_cast<float>(x);
    const double phi = 0.5 * std::erfc(-static_cast<double>(argument) / std::numbers::sqrt2);
    EXPECT_CLOSE(Gelu(argument), argument * phi, std::abs(argument * phi), testing::kGeluFactor)
        << argument;
  }
  EXPECT_EQ(Gelu(0), 0);
  EXPECT_EQ(Gelu(kInf), kInf);
  EXPECT_EQ(Gelu(-kInf), 0);
  EXPECT_TRUE(std::isnan(Gelu(std::nanf(""))));
  for (float x : {1e-30f, -1e-30f, 1e-38f}) EXPECT_FLOAT_EQ(Gelu(x), x / 2);
}

TEST(CudaMathTest, SigmoidIsWithinItsFactor) {
  for (double x = -80; x < 80; x += 0.00137) {
    const auto argument = static_cast<float>(x);
    const double expected = 1 / (1 + std::exp(-static_cast<double>(argument)));
    EXPECT_CLOSE(Sigmoid(argument), expected, expected * (1 + std::abs(x)), testing::kGateFactor)
        << argument;
  }
  EXPECT_EQ(Sigmoid(kInf), 1);
  EXPECT_EQ(Sigmoid(-kInf), 0);
  EXPECT_TRUE(std::isnan(Sigmoid(std::nanf(""))));
}

TEST(CudaMathTest, FourNumbersAtATimeEndWhereTheyEnd) {
  alignas(16) const float from[8] = {1.0f, 2.0f, 3.00001f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f};
  for (int at = 0; at < 4; ++at) {
    for (int left = -1; left <= 5; ++left) {
      float four[4] = {-1, -1, -1, -1};
      ReadFour(from + at, left, four);
      alignas(16) float wide[8];
      alignas(16) Bf16 narrow[8];
      std::fill_n(wide, 8, -1.0f);
      std::fill_n(narrow, 8, Bf16::FromFloat(-1));
      WriteFour(wide + at, left, four);
      WriteFour(narrow + at, left, four);
      for (int i = 0; i < 8; ++i) {
        const bool inside = i >= at && i < at + std::min(left, 4);
        if (i >= at && i < at + 4) {
          EXPECT_EQ(four[i - at], inside ? from[i] : 0);
        }
        EXPECT_EQ(wide[i], inside ? from[i] : -1);
        EXPECT_EQ(narrow[i], Bf16::FromFloat(inside ? from[i] : -1));
      }
    }
  }
}

TEST(CudaMathTest, Bf16IsThatOfTheBase) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Bf16 number{static_cast<uint16_t>(bits)};
    EXPECT_EQ(BitsOf(FromBf16(number.bits)), BitsOf(number.ToFloat())) << bits;
  }
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 12347) {
    const float number = FromBits(static_cast<uint32_t>(bits));
    EXPECT_EQ(ToBf16(number), Bf16::FromFloat(number).bits) << bits;
  }
}

TEST(CudaMathTest, JoiningWithAnEmptyPartChangesNothing) {
  for (float max : {-3.5f, 0.0f, 77.0f}) {
    for (float output : {0.0f, 1.25f, -7e-30f}) {
      const MergeScales after = ScalesOf(EmptyPart().max, max);
      EXPECT_EQ(after.max, max);
      EXPECT_EQ(BitsOf(Join(after, 0, output)), BitsOf(output));
      const MergeScales before = ScalesOf(max, EmptyPart().max);
      EXPECT_EQ(before.max, max);
      EXPECT_EQ(BitsOf(Join(before, output, 0)), BitsOf(output));
    }
  }
  const MergeScales none = ScalesOf(EmptyPart().max, EmptyPart().max);
  EXPECT_EQ(none.max, -kInf);
  EXPECT_EQ(Join(none, 0, 0), 0);
}

// Three parts of one softmax, joined from the left and from the right, against the whole.
TEST(CudaMathTest, JoiningPartsIsAssociativeUpToRounding) {
  const std::vector<float> scores = Normals(90, 1, 8), values = Normals(90, 2);
  struct State {
    SoftmaxPart part;
    float output;
  };
  const auto part = [&](int begin, int end) {
    State state = {EmptyPart(), 0};
    for (int i = begin; i < end; ++i) state.part.max = Max(state.part.max, scores[i]);
    for (int i = begin; i < end; ++i) {
      const float p = Exp(Add(scores[i], -state.part.max));
      state.part.sum = Add(state.part.sum, p);
      state.output = Fma(p, values[i], state.output);
    }
    return state;
  };
  const auto join = [](const State& a, const State& b) {
    const MergeScales scales = ScalesOf(a.part.max, b.part.max);
    return State{{scales.max, Join(scales, a.part.sum, b.part.sum)},
                 Join(scales, a.output, b.output)};
  };
  const State a = part(0, 20), b = part(20, 21), c = part(21, 90);
  double largest = -1e30, sum = 0, expected = 0;
  for (float s : scores) largest = std::max<double>(largest, s);
  for (size_t i = 0; i < scores.size(); ++i) {
    sum += std::exp(scores[i] - largest);
    expected += std::exp(scores[i] - largest) * values[i];
  }
  for (const State& state : {join(join(a, b), c), join(a, join(b, c)), part(0, 90)}) {
    EXPECT_EQ(state.part.max, largest);
    EXPECT_CLOSE(Div(state.output, state.part.sum), expected / sum, 4.0, testing::kAttentionFactor);
  }
}

TEST(CudaMathTest, DotLanesAddUpToTheDotProduct) {
  for (int count : {1, 7, 8, 10, 64, 72, 100, 128}) {
    const std::vector<float> b = Normals(count, 2);
    const std::vector<Bf16> narrow = NormalBf16(count, 3);
    std::vector<float> a = Normals(count, 1);
    a.resize(RoundUpToPiece(count), 0.0f);
    double wide_sum = 0, narrow_sum = 0, expected = 0, narrow_expected = 0, magnitude = 0;
    for (int lane = 0; lane < kDotLanes; ++lane) {
      wide_sum += DotLane(a.data(), b.data(), count, lane, false, 0);
      narrow_sum += DotLane(a.data(), reinterpret_cast<const uint16_t*>(narrow.data()), count, lane,
                            false, 0);
    }
    for (int i = 0; i < count; ++i) {
      expected += static_cast<double>(a[i]) * b[i];
      narrow_expected += static_cast<double>(a[i]) * narrow[i].ToFloat();
      magnitude += std::abs(a[i] * b[i]) + std::abs(a[i] * narrow[i].ToFloat());
    }
    EXPECT_CLOSE(wide_sum, expected, magnitude, testing::kLandmarkFactor) << count;
    EXPECT_CLOSE(narrow_sum, narrow_expected, magnitude, testing::kLandmarkFactor) << count;
  }
}

}  // namespace
}  // namespace recollect::kernels::cuda
