#include "kernels/gemm/quant_gemm.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/cpu/served_team.h"
#include "tests/kernels/gemm/quant_cases.h"
#include "tests/support/status_matchers.h"

namespace recollect::kernels {
namespace {

using quant_cases::Tensor;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string NameOf(QuantFormat format) { return std::string(TraitsOf(format).name); }

std::vector<QuantCode> AllCodes() { return QuantCodes(DetectIsa()); }

QuantMatrix Pack(std::span<const QuantRows> parts, int64_t k) {
  auto matrix = QuantMatrix::Create(parts, k);
  EXPECT_THAT(matrix, IsOk());
  return *std::move(matrix);
}
QuantMatrix Pack(const Tensor& tensor, int64_t k) {
  const QuantRows part = tensor.view();
  return Pack({&part, 1}, k);
}

std::vector<float> Multiply(const QuantCode& code, const QuantMatrix& matrix,
                            const std::vector<float>& x) {
  const int64_t rows = std::ssize(x) / matrix.k();
  OpContext ctx;
  Guarded input(x), y(rows * matrix.n());
  QuantGemmBy(ctx, code, matrix, input.data(), rows, y.data());
  return y.values();
}

// As SameBits; of two NaN neither sign nor payload counts.
::testing::AssertionResult SameNumbers(std::vector<float> a, std::vector<float> b) {
  for (std::vector<float>* numbers : {&a, &b}) {
    for (float& number : *numbers) number = std::isnan(number) ? kNan : number;
  }
  return SameBits(a, b);
}

// The rounded rows as numbers.
std::vector<float> Rounded(const std::vector<float>& x, int64_t k) {
  const int64_t count = std::ssize(x);
  std::vector<int8_t> codes(count);
  std::vector<QuantGroup> groups(count / kQuantGroup);
  AllCodes().front().round(x.data(), count / k, k, codes.data(), groups.data());
  std::vector<float> rounded(count);
  for (int64_t i = 0; i < count; ++i) {
    rounded[i] = groups[i / kQuantGroup].scale * static_cast<float>(codes[i]);
  }
  return rounded;
}

// Against sums in double of the rounded rows and the weights that the blocks say. A weight s q + u
// is summed as s q and u, which may each be larger than it: the magnitude has the largest weight
// of the group, and twice how far weights of a group lie apart.
void ExpectMatchesDouble(const std::vector<float>& y, const std::vector<float>& weights,
                         const std::vector<float>& x, int64_t k) {
  const int64_t n = std::ssize(weights) / k;
  for (int64_t at = 0; at < std::ssize(y); ++at) {
    const float* row = &x[at / n * k];
    const float* weight = &weights[at % n * k];
    double sum = 0, magnitude = 0;
    for (int64_t g = 0; g < k; g += kQuantGroup) {
      const auto [low, high] = std::minmax_element(weight + g, weight + g + kQuantGroup);
      const double most =
          std::max(std::abs(*low), std::abs(*high)) + 2 * (static_cast<double>(*high) - *low);
      for (int64_t i = g; i < g + kQuantGroup; ++i) {
        sum += static_cast<double>(row[i]) * weight[i];
        magnitude += std::abs(row[i]) * most;
      }
    }
    const std::string difference = testing::Difference(y[at], sum, magnitude, testing::kGemmFactor);
    ASSERT_EQ(difference, "") << "at " << at;
  }
}

void ExpectAllCodesAgree(QuantFormat format, int64_t n, int64_t k, int64_t rows) {
  SCOPED_TRACE(absl::StrCat(NameOf(format), ", ", rows, " rows, ", n, " x ", k));
  const Tensor tensor(format, n, k, static_cast<uint32_t>(n + k));
  const QuantMatrix matrix = Pack(tensor, k);
  const std::vector<float> x = Normals(rows * k, 2);
  std::vector<float> expected;
  for (const QuantCode& code : AllCodes()) {
    SCOPED_TRACE(code.name);
    const std::vector<float> y = Multiply(code, matrix, x);
    if (expected.empty()) {
      expected = y;
      ExpectMatchesDouble(y, tensor.Numbers(), Rounded(x, k), k);
    }
    ASSERT_TRUE(SameBits(y, expected));
  }
}

TEST(QuantGemmTest, EveryCodeHasTheBitsOfTheReference) {
  for (const QuantFormat format : kQuantFormats) {
    for (const int64_t k : {32, 256, 576, 1536}) {
      if (k % TraitsOf(format).block != 0) continue;
      for (const int64_t n : {1, 15, 16, 17}) {
        for (const int64_t rows : {0, 1, 2, 3, 7, 16, 17, 64}) {
          ExpectAllCodesAgree(format, n, k, rows);
        }
      }
    }
    ExpectAllCodesAgree(format, 960, 768, 3);
    ExpectAllCodesAgree(format, 3072, 256, 17);
    ExpectAllCodesAgree(format, 40, 256, 257);  // more rows than are rounded together
  }
}

TEST(QuantGemmTest, ARowHasTheSameBitsInAnyBatchAndAtAnyPlace) {
  const int64_t n = 50, k = 512, total = 150;
  for (const QuantFormat format : kQuantFormats) {
    SCOPED_TRACE(NameOf(format));
    const Tensor tensor(format, n, k, 1);
    const QuantRows part = tensor.view();
    const auto packed = PackedMatrix::CreateQuantized({&part, 1}, k);
    ASSERT_THAT(packed, IsOk());
    const PackedMatrix& matrix = *packed;
    EXPECT_EQ(matrix.n(), n);
    EXPECT_EQ(matrix.k(), k);
    const std::vector<float> x = Normals(total * k, 2);
    for (const Isa isa : RunnableIsas()) {
      OpContext ctx(isa);
      std::vector<float> alone(total * n);
      for (int64_t r = 0; r < total; ++r) Gemm(ctx, matrix, &x[r * k], 1, &alone[r * n]);
      for (const int64_t step : {2, 3, 4, 5, 6, 7, 16, 31, 64, 150}) {
        std::vector<float> y(total * n);
        for (int64_t r = 0; r < total; r += step) {
          Gemm(ctx, matrix, &x[r * k], std::min(step, total - r), &y[r * n]);
        }
        EXPECT_TRUE(SameBits(y, alone)) << IsaName(isa) << " in steps of " << step;
      }
    }
  }
}

TEST(QuantGemmTest, ATeamComputesTheSameBits) {
  const int64_t k = 512, rows = 20;
  const Tensor first(QuantFormat::kQ4_1, 300, k, 1), second(QuantFormat::kQ6_K, 41, k, 2);
  const std::vector<QuantRows> parts = {first.view(), second.view()};
  const auto packed = PackedMatrix::CreateQuantized(parts, k);
  ASSERT_THAT(packed, IsOk());
  const std::vector<float> x = Normals(rows * k, 3);
  for (const Isa isa : RunnableIsas()) {
    OpContext alone(isa);
    ServedTeam team(2, isa);
    std::vector<float> expected(rows * packed->n()), y(rows * packed->n());
    Gemm(alone, *packed, x.data(), rows, expected.data());
    for (int repeat = 0; repeat < 20; ++repeat) {
      Gemm(team.leader(), *packed, x.data(), rows, y.data());
      ASSERT_TRUE(SameBits(y, expected)) << IsaName(isa);
    }
  }
}

TEST(QuantGemmTest, StackedTensorsOfDifferentFormatsAreMultipliedAsEachAlone) {
  const int64_t k = 256, rows = 9;
  std::vector<Tensor> tensors;
  std::vector<QuantRows> parts;
  for (const QuantFormat format : kQuantFormats) tensors.emplace_back(format, 21, k, 1);
  for (const Tensor& tensor : tensors) parts.push_back(tensor.view());
  const QuantMatrix stacked = Pack(parts, k);
  ASSERT_EQ(stacked.n(), 21 * std::ssize(parts));
  const std::vector<float> x = Normals(rows * k, 2);
  for (const QuantCode& code : AllCodes()) {
    const std::vector<float> y = Multiply(code, stacked, x);
    for (size_t p = 0; p < tensors.size(); ++p) {
      const std::vector<float> alone = Multiply(code, Pack(tensors[p], k), x);
      for (int64_t r = 0; r < rows; ++r) {
        EXPECT_TRUE(SameBits(std::span(y).subspan(r * stacked.n() + p * 21, 21),
                             std::span(alone).subspan(r * 21, 21)))
            << code.name << ", part " << p << ", row " << r;
      }
    }
  }
}

// By hand: of 127 the codes are the numbers themselves, ties go to even.
TEST(QuantGemmTest, RowsAreRoundedAsTheHeaderSays) {
  std::vector<float> x(96);
  x[0] = 127, x[1] = 2.5f, x[2] = 3.5f, x[3] = -2.5f, x[4] = -126.75f, x[20] = 1;
  x[32] = 0x1p-101f;  // below 2^-100: zero
  x[64] = -3, x[95] = 1.5f;
  for (const QuantCode& code : AllCodes()) {
    SCOPED_TRACE(code.name);
    std::vector<int8_t> codes(96, 1);
    std::vector<QuantGroup> groups(3);
    code.round(x.data(), 1, 96, codes.data(), groups.data());
    EXPECT_THAT(std::span(codes).first(6), ElementsAre(127, 2, 4, -2, -127, 0));
    EXPECT_EQ(groups[0].scale, 1);
    EXPECT_EQ(groups[0].sum, 127 + 2 + 4 - 2 - 127 + 1);
    EXPECT_EQ(groups[0].negative, -5);
    EXPECT_EQ(groups[0].lower, -4);
    EXPECT_THAT(std::span(codes).subspan(32, 32), Each(0));
    EXPECT_EQ(groups[1].scale, 0);
    EXPECT_EQ(codes[64], -127);
    EXPECT_EQ(codes[95], 64);  // 63.5
    EXPECT_EQ(groups[2].scale, 3.0f / 127.0f);
    EXPECT_EQ(groups[2].sum, 3.0f / 127.0f * -63.0f);
  }
}

TEST(QuantGemmTest, EveryCodeRoundsAlike) {
  for (const float deviation : {1e-37f, 1e-30f, 1e-5f, 1.0f, 1e30f}) {
    const int64_t k = 64 * kQuantGroup;
    const std::vector<float> x = Normals(k, 3, deviation);
    std::vector<std::vector<int8_t>> codes;
    std::vector<std::vector<QuantGroup>> groups;
    for (const QuantCode& code : AllCodes()) {
      codes.emplace_back(k);
      groups.emplace_back(k / kQuantGroup);
      code.round(x.data(), 1, k, codes.back().data(), groups.back().data());
      EXPECT_EQ(codes.back(), codes.front()) << code.name << " " << deviation;
      EXPECT_EQ(std::memcmp(groups.back().data(), groups.front().data(),
                            groups.front().size() * sizeof(QuantGroup)),
                0)
          << code.name << " " << deviation;
    }
    // A code is half a step off at most, and the rounding of the reciprocal.
    for (int64_t i = 0; i < k; ++i) {
      const float scale = groups[0][i / kQuantGroup].scale;
      ASSERT_LE(std::abs(scale * static_cast<float>(codes[0][i]) - x[i]),
                0.50002f * scale + 1e-30f);
    }
  }
}

TEST(QuantGemmTest, ARowWithANonFiniteNumberIsNanAndOthersAreNot) {
  const int64_t n = 20, k = 256, rows = 18;
  for (const QuantFormat format : kQuantFormats) {
    const Tensor tensor(format, n, k, 1);
    const QuantMatrix matrix = Pack(tensor, k);
    std::vector<float> x = Normals(rows * k, 2);
    x[2 * k + 7] = kNan;
    x[5 * k + 70] = kInfinity;
    x[17 * k + 255] = -kInfinity;
    for (const QuantCode& code : AllCodes()) {
      const std::vector<float> y = Multiply(code, matrix, x);
      for (int64_t i = 0; i < rows * n; ++i) {
        const int64_t row = i / n;
        EXPECT_EQ(std::isnan(y[i]), row == 2 || row == 5 || row == 17)
            << code.name << " " << NameOf(format) << " at " << i;
      }
    }
  }
}

TEST(QuantGemmTest, ZerosGiveZerosAndLargeNumbersTheReference) {
  const int64_t n = 20, k = 512, rows = 17;
  for (const QuantFormat format : kQuantFormats) {
    SCOPED_TRACE(NameOf(format));
    Tensor tensor(format, n, k, 1);
    for (const QuantCode& code : AllCodes()) {
      EXPECT_THAT(Multiply(code, Pack(tensor, k), std::vector<float>(rows * k)), Each(0.0f));
    }
    // Zero, subnormal, the largest, infinite, NaN.
    for (const uint16_t half : {0x0000, 0x0001, 0x7bff, 0xfbff, 0x7c00, 0x7e00}) {
      tensor.SetScales([&] { return half; }, [&] { return half; });
      const QuantMatrix matrix = Pack(tensor, k);
      for (const float deviation : {1e-30f, 1.0f, 1e37f}) {
        const std::vector<float> x = Normals(rows * k, 2, deviation);
        const std::vector<float> expected = Multiply(AllCodes().front(), matrix, x);
        for (const QuantCode& code : AllCodes()) {
          EXPECT_TRUE(SameNumbers(Multiply(code, matrix, x), expected))
              << code.name << ", scale " << half << ", numbers of " << deviation;
        }
      }
    }
  }
}

// The largest codes everywhere: 16-bit sums must not overflow.
TEST(QuantGemmTest, LargestCodesDoNotOverflow) {
  const int64_t n = 17, k = 256;
  for (const QuantFormat format : kQuantFormats) {
    for (const std::byte fill : {std::byte{0xff}, std::byte{0x7f}, std::byte{0x80}}) {
      const QuantTraits traits = TraitsOf(format);
      const std::vector<std::byte> blocks(n * k / traits.block * traits.block_bytes, fill);
      std::vector<std::byte> bytes = blocks;
      for (size_t at = 0; at < bytes.size(); at += traits.block_bytes) {
        const uint16_t one = 0x3c00;
        std::memcpy(&bytes[at + (format == QuantFormat::kQ6_K ? traits.block_bytes - 2 : 0)], &one,
                    2);
        if (format != QuantFormat::kQ8_0 && format != QuantFormat::kQ4_0 &&
            format != QuantFormat::kQ6_K) {
          std::memcpy(&bytes[at + 2], &one, 2);
        }
      }
      const QuantRows part{format, bytes.data(), n};
      const QuantMatrix matrix = Pack({&part, 1}, k);
      std::vector<float> weights(n * k);
      Dequantize(format, bytes.data(), n * k / traits.block, weights.data());
      for (const float sign : {1.0f, -1.0f}) {
        const std::vector<float> x(9 * k, sign);
        for (const QuantCode& code : AllCodes()) {
          SCOPED_TRACE(absl::StrCat(code.name, " ", NameOf(format)));
          ExpectMatchesDouble(Multiply(code, matrix, x), weights, Rounded(x, k), k);
        }
      }
    }
  }
}

TEST(QuantGemmTest, RefusesShapesThatDoNotFit) {
  const Tensor q4(QuantFormat::kQ4_1, 3, 256, 1), k6(QuantFormat::kQ6_K, 3, 256, 1);
  const QuantRows four = q4.view(), six = k6.view();
  const QuantRows both[] = {four, six};
  const auto error = [](std::span<const QuantRows> parts, int64_t k) {
    return PackedMatrix::CreateQuantized(parts, k).status();
  };
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(error({&four, 1}, 48),
              StatusIs(kInvalid, "Q4_1: rows of 48 numbers, expected a multiple of 32"));
  EXPECT_THAT(error(both, 96),
              StatusIs(kInvalid, "Q6_K: rows of 96 numbers, expected a multiple of 256"));
  EXPECT_THAT(error({&four, 1}, 0), StatusIs(kInvalid, "0 numbers"));
  EXPECT_THAT(error({}, 256), StatusIs(kInvalid, "without parts"));
  const QuantRows none{QuantFormat::kQ8_0, nullptr, 0};
  EXPECT_THAT(error({&none, 1}, 32), StatusIs(kInvalid, "Q8_0: 0 rows, expected at least 1"));
}

// What a weight costs in memory, in bits.
TEST(QuantGemmTest, KeepsTheBitsOfTheBlocks) {
  const int64_t n = 64, k = 1024;
  const auto bits = [&](QuantFormat format) {
    return static_cast<double>(8 * Pack(Tensor(format, n, k, 1), k).bytes()) / (n * k);
  };
  EXPECT_EQ(bits(QuantFormat::kQ8_0), 8.5);
  EXPECT_EQ(bits(QuantFormat::kQ4_0), 4.5);
  EXPECT_EQ(bits(QuantFormat::kQ4_1), 5.0);
  EXPECT_EQ(bits(QuantFormat::kQ5_0), 6.5);
  EXPECT_EQ(bits(QuantFormat::kQ5_1), 7.0);
  EXPECT_EQ(bits(QuantFormat::kQ4_K), 4.625);
  EXPECT_EQ(bits(QuantFormat::kQ5_K), 6.625);
  EXPECT_EQ(bits(QuantFormat::kQ6_K), 6.5625);
}

// A slow fallback must not go unnoticed.
TEST(QuantGemmTest, UsesEveryCodeThatTheMachineHas) {
  std::vector<std::string> names, expected = {"scalar"};
  for (const QuantCode& code : AllCodes()) names.emplace_back(code.name);
  if (DetectIsa() >= Isa::kAvx2) expected.emplace_back("avx2");
  if (DetectIsa() < Isa::kAvx512 || !__builtin_cpu_supports("avx512vnni")) {
    EXPECT_EQ(names, expected);
    return;
  }
  if (std::getenv("DNNL_MAX_CPU_ISA") != nullptr) GTEST_SKIP() << "DNNL_MAX_CPU_ISA is set";
  expected.emplace_back("avx512_vnni");
  if (names.size() > expected.size()) expected.emplace_back("amx");
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace recollect::kernels
