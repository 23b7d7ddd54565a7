// Checks for operations of any kernels::Device, made on the host's (host_device.h) and on a GPU's
// alike: through the interface a result is close to that of the CPU's operation of the same name.
// Each operation's own tests check all sizes, and that rows have the same bits in any batch.
// Operations whose own suites run through the interface (op_test.h) are not here.
#ifndef RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_OP_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_OP_CHECKS_H_

#include <algorithm>
#include <functional>

#include "kernels/gemm/gemm.h"
#include "kernels/range_attention/range_attention.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::device_cases {

// Compares two results, each of which may be off by the factor.
inline void ExpectClose(const std::vector<float>& actual, const std::vector<float>& expected,
                        const std::function<double(int64_t)>& magnitude, double factor) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_CLOSE(actual[i], expected[i], magnitude(static_cast<int64_t>(i)), 2 * factor)
        << "at " << i;
  }
}

inline constexpr int64_t kRows = 5, kWidth = 44;
inline constexpr int64_t kCount = kRows * kWidth;

// Rounds numbers to those that a format has, as floats.
inline std::vector<float> Rounded(std::vector<float> numbers, DType dtype) {
  if (dtype == DType::kBf16) {
    for (float& number : numbers) number = recollect::RoundToBf16(number);
  }
  return numbers;
}

// Checks two sequences, one of which has enough rows of grouped heads for two tiles.
inline void CheckTileAttention(Device& device) {
  constexpr int kHeads = 4, kKvHeads = 1, kDim = 11, kParts = kMaxRanges;
  constexpr int64_t kTileRows = 19, kEntries = 40, kOut = kTileRows * kHeads * kDim;
  Arrays arrays(device);
  OpContext ctx;
  const std::vector<float> q = Rounded(Normals(kOut, 1), DType::kBf16);
  const int64_t runs[] = {18, 1};
  std::vector<RangeSet> sets(kTileRows);
  for (int64_t row = 0; row < kTileRows; ++row) {
    sets[row].ranges = {RangeSet::Range{0, row}, {row, 2 * row}, {row, 40}};
  }
  std::vector<float> expected(kOut);
  std::vector<CacheRows> caches;
  int64_t first = 0;
  for (const int64_t rows : runs) {
    std::vector<float> numbers[2 * kParts];
    std::array<KvSpan, kParts> parts;
    CacheRows& cache = caches.emplace_back(CacheRows{.rows = rows});
    for (uint32_t p = 0; p < kParts; ++p) {
      const auto place = [&](uint32_t i) {
        numbers[i] = Rounded(Normals(kEntries * kKvHeads * kDim, 10 * i + rows), DType::kBf16);
        return static_cast<const Bf16*>(arrays.PlaceAs(DType::kBf16, numbers[i]));
      };
      const Bf16* const keys = place(2 * p);
      cache.parts[p] = {keys, place(2 * p + 1)};
      parts[p] = {numbers[2 * p].data(), numbers[2 * p + 1].data()};
    }
    RangeAttention(ctx, {kHeads, kKvHeads, kDim}, q.data() + first * kHeads * kDim, kHeads * kDim,
                   rows, parts, sets.data() + first, expected.data() + first * kHeads * kDim);
    first += rows;
  }
  const std::vector<RowTile> tiles = RowTilesOf(caches, sets, MostTileRows(kHeads, kKvHeads));
  const TileAttentionSizes sizes =
      SizesOf({.rows = kTileRows, .heads = kHeads, .kv_heads = kKvHeads, .head_dim = kDim}, tiles);
  const auto plan = PlanTileAttention(sizes, device.multiprocessors());
  ASSERT_TRUE(plan.ok()) << plan.status();
  TileAttentionOp in;
  in.plan = *plan;
  in.q = static_cast<const Bf16*>(arrays.PlaceAs(DType::kBf16, q));
  in.q_stride = kHeads * kDim;
  in.kv_stride = kKvHeads * kDim;
  in.tiles = arrays.Place(tiles);
  in.sets = arrays.Place(sets);
  in.workspace = arrays.Allocate(plan->workspace_bytes);
  in.out = static_cast<float*>(arrays.Allocate(kOut * int64_t{sizeof(float)}));
  ASSERT_EQ(device.Run(in), absl::OkStatus());
  ExpectClose(
      arrays.Read(in.out, kOut), expected,
      [](int64_t) { return 5 * (1 + 25 * std::sqrt(kDim) + testing::kBf16Probabilities); },
      testing::kAttentionFactor);
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

inline void CheckSample(Device& device) {
  Arrays arrays(device);
  const NeverChosen never{2, 30};
  std::vector<float> logits = Normals(kCount, 1);
  logits[2] = logits[kWidth + 30] = 100;
  const float* const on_device = arrays.Place(logits);
  std::vector<SampleSettings> settings(kRows);
  settings[1] = {.temperature = 0.8f, .top_k = 9, .top_p = 0.9, .draw = 0.7};
  int32_t* const choices = static_cast<int32_t*>(arrays.Allocate(kRows * int64_t{sizeof(int32_t)}));
  ASSERT_EQ(device.Run(SampleOp{on_device, kRows, kWidth, never, arrays.Place(settings), choices}),
            absl::OkStatus());
  const std::vector<int32_t> chosen = arrays.Read(choices, kRows);
  SampleScratch scratch;
  for (int64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(chosen[row], Sample(std::span(logits).subspan(row * kWidth, kWidth), settings[row],
                                  never, scratch))
        << row;
  }
}

}  // namespace recollect::kernels::device_cases

#endif  // RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_OP_CHECKS_H_
