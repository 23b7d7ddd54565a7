// Checks for operations of any kernels::Device, made on the host's (host_device.h) and on a GPU's
// alike: through the interface a result is close to that of the CPU's operation of the same name.
// Each operation's own tests check all sizes, and that rows have the same bits in any batch.
// Operations whose own suites run through the interface (op_test.h) are not here.
#pragma once

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::device_cases {

inline constexpr int64_t kRows = 5, kWidth = 44;
inline constexpr int64_t kCount = kRows * kWidth;

// Rounds numbers to those that a format has, as floats.
inline std::vector<float> Rounded(std::vector<float> numbers, DType dtype) {
  if (dtype == DType::kBf16) {
    for (float& number : numbers) number = recollect::RoundToBf16(number);
  }
  return numbers;
}

inline void CheckGemm(Device& device) {
  using enum DType;
  constexpr int64_t kN = 24, kK = 40;
  const GemmShape shapes[] = {{kN, kK},
                              {kN, kK, kFloat32, kFloat32, true},
                              {kN, kK, kBf16},
                              {kN, kK, kBf16, kFloat32, true},
                              {kN, kK, kBf16, kBf16}};
  for (const GemmShape& shape : shapes) {
    SCOPED_TRACE(absl::StrCat(NameOf(shape), shape.add ? ", added" : ""));
    Arrays arrays(device);
    const std::vector<float> weights = Rounded(Normals(kN * kK, 1), shape.in);
    const std::vector<float> x = Rounded(Normals(kRows * kK, 2), shape.in);
    const std::vector<float> before = Rounded(Normals(kRows * kN, 3), shape.out);
    std::vector<float> expected(kRows * kN);
    GemmReference(weights.data(), kN, kK, kFloat32, x.data(), kRows, expected.data());
    void* const y = arrays.PlaceAs(shape.out, before);
    ASSERT_EQ(device.PrepareGemm(shape), absl::OkStatus());
    ASSERT_EQ(device.Run(GemmOp{shape, arrays.PlaceAs(shape.in, weights),
                                arrays.PlaceAs(shape.in, x), kRows, y}),
              absl::OkStatus());
    std::vector<float> actual;
    if (shape.out == kFloat32) {
      actual = arrays.Read(static_cast<float*>(y), kRows * kN);
    } else {
      for (Bf16 number : arrays.Read(static_cast<Bf16*>(y), kRows * kN)) {
        actual.push_back(number.ToFloat());
      }
    }
    for (int64_t i = 0; i < kRows * kN; ++i) {
      double magnitude = 0, sum = expected[i];
      for (int64_t k = 0; k < kK; ++k) {
        magnitude += std::abs(x[i / kN * kK + k] * weights[i % kN * kK + k]);
      }
      if (shape.add) sum += before[i];
      const double rounding = shape.out == kBf16 ? 0x1p-8 * std::abs(sum) : 0;
      EXPECT_NEAR(actual[i], sum,
                  testing::kGemmFactor * testing::kFloatEpsilon * magnitude + rounding)
          << i;
    }
  }
}

// Checks three kinds of rows: pointed to nowhere, to many tokens, and with a sentinel that is the
// surest.
inline void CheckMixPointed(Device& device) {
  Arrays arrays(device);
  constexpr int32_t kSentinel = 1;
  std::vector<float> logits = Normals(kCount, 1, 3);
  logits[2 * kWidth + kSentinel] = 30;
  std::vector<std::vector<PointedToken>> rows(kRows);
  for (int32_t token = 2; token < kWidth; token += 3) {
    rows[1].push_back({token, static_cast<float>(token % 7) - 2});
  }
  rows[2] = {{0, 25.0f}, {static_cast<int32_t>(kWidth) - 1, -40.0f}};
  std::vector<PointedToken> all;
  std::vector<int64_t> ends;
  for (const auto& row : rows) {
    all.insert(all.end(), row.begin(), row.end());
    ends.push_back(static_cast<int64_t>(all.size()));
  }
  float* const on_device = const_cast<float*>(arrays.Place(logits));
  ASSERT_EQ(device.Run(MixPointedOp{kRows, kWidth, kSentinel, arrays.Place(all), arrays.Place(ends),
                                    on_device}),
            absl::OkStatus());
  const std::vector<float> mixed = arrays.Read(on_device, kCount);
  EXPECT_EQ(device.Run(MixPointedOp{1, kWidth, kWidth}).code(), absl::StatusCode::kInvalidArgument);
  OpContext ctx;
  for (int64_t row = 0; row < kRows; ++row) {
    const float* const before = logits.data() + row * kWidth;
    std::vector<float> on_host(before, before + kWidth);
    MixPointed(ctx, kWidth, kSentinel, rows[row], on_host.data());
    // By the definition: the shares of a softmax.
    double own = 0, places = std::exp(before[kSentinel]);
    for (int64_t i = 0; i < kWidth; ++i) own += i == kSentinel ? 0 : std::exp(double{before[i]});
    for (const PointedToken& to : rows[row]) places += std::exp(double{to.score});
    std::vector<double> share(kWidth);
    for (int64_t i = 0; i < kWidth; ++i) {
      if (i == kSentinel) continue;
      share[i] = std::exp(before[kSentinel]) / places * std::exp(double{before[i]}) / own;
    }
    for (const PointedToken& to : rows[row]) share[to.token] += std::exp(double{to.score}) / places;
    for (const std::vector<float>& actual :
         {on_host, std::vector(mixed.begin() + row * kWidth, mixed.begin() + (row + 1) * kWidth)}) {
      EXPECT_EQ(actual[kSentinel], -std::numeric_limits<float>::infinity());
      double total = 0;
      for (const float logit : actual) total += std::exp(double{logit});
      for (int64_t i = 0; i < kWidth; ++i) {
        EXPECT_NEAR(std::exp(double{actual[i]}) / total, share[i], 1e-5 * share[i] + 1e-12)
            << row << " " << i;
      }
    }
  }
}

}  // namespace recollect::kernels::device_cases
