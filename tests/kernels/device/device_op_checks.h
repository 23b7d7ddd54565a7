// What operations of any kernels::Device must do, checked on the host's (host_device.h) and on
// a GPU's alike: through the interface it is close to the CPU's operation of the same name. That
// rows have the same bits in any company, and all sizes, are tested with the operation
// (*_device_checks.h).
#ifndef RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_OP_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_OP_CHECKS_H_

#include <algorithm>
#include <functional>

#include "kernels/elementwise/elementwise.h"
#include "kernels/gated_scan/gated_scan.h"
#include "kernels/gca/gca.h"
#include "kernels/gemm/gemm.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::device_cases {

// Both operations may be off by their factor.
inline void ExpectClose(const std::vector<float>& actual, const std::vector<float>& expected,
                        const std::function<double(int64_t)>& magnitude, double factor) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_CLOSE(actual[i], expected[i], magnitude(static_cast<int64_t>(i)), 2 * factor)
        << "at " << i;
  }
}

inline double Largest(const std::vector<float>& numbers) {
  double largest = 0;
  for (const float number : numbers) largest = std::max<double>(largest, std::abs(number));
  return largest;
}

inline constexpr int64_t kRows = 5, kWidth = 44;
inline constexpr int64_t kCount = kRows * kWidth;

// Runs an operation that has y[kRows, kWidth], into floats and into Bf16.
inline void CheckRowsOf(Device& device, const std::function<absl::Status(const DeviceRows&)>& run,
                        const std::vector<float>& expected, double largest_gate, double factor) {
  Arrays arrays(device);
  float* const y = static_cast<float*>(arrays.Allocate(kCount * int64_t{sizeof(float)}));
  ASSERT_EQ(run({y, DType::kFloat32}), absl::OkStatus());
  const std::vector<float> wide = arrays.Read(y, kCount);
  const auto magnitude = [&](int64_t i) { return std::abs(expected[i]) * (1 + largest_gate); };
  ExpectClose(wide, expected, magnitude, factor);
  Bf16* const rounded = static_cast<Bf16*>(arrays.Allocate(kCount * int64_t{sizeof(Bf16)}));
  ASSERT_EQ(run({rounded, DType::kBf16}), absl::OkStatus());
  const std::vector<Bf16> narrow = arrays.Read(rounded, kCount);
  for (int64_t i = 0; i < kCount; ++i) EXPECT_EQ(narrow[i], Bf16::FromFloat(wide[i])) << i;
}

inline void CheckNormsAndGates(Device& device) {
  Arrays arrays(device);
  OpContext ctx;
  const int64_t gate_stride = kWidth + 4;
  const std::vector<float> x = Normals(kCount, 1), pairs = Normals(2 * kCount, 2, 2);
  const std::vector<float> gain = Normals(kWidth, 3), gate = Normals(kRows * gate_stride, 4);
  const float* const on_x = arrays.Place(x);
  const float* const on_pairs = arrays.Place(pairs);
  const float* const on_gain = arrays.Place(gain);
  const float* const on_gate = arrays.Place(gate);
  std::vector<float> y(kCount);

  RmsNorm(ctx, x.data(), gain.data(), 1e-6f, kRows, kWidth, y.data());
  const auto norm = [&](const DeviceRows& to) {
    return device.RmsNorm({kRows, kWidth}, on_x, on_gain, 1e-6f, to);
  };
  CheckRowsOf(device, norm, y, 0, testing::kRmsNormFactor);
  SwiGlu(ctx, pairs.data(), kRows, kWidth, y.data());
  const auto swiglu = [&](const DeviceRows& to) {
    return device.SwiGlu(on_pairs, kRows, kWidth, to);
  };
  CheckRowsOf(device, swiglu, y, Largest(pairs), testing::kGateFactor);
  GeGlu(ctx, pairs.data(), kRows, kWidth, y.data());
  const auto geglu = [&](const DeviceRows& to) {
    return device.GeGlu(on_pairs, kRows, kWidth, to);
  };
  CheckRowsOf(device, geglu, y, 0, testing::kGeluFactor);
  Gelu(ctx, x.data(), kCount, y.data());
  const auto gelu = [&](const DeviceRows& to) { return device.Gelu(on_x, kCount, to); };
  CheckRowsOf(device, gelu, y, 0, testing::kGeluFactor);
  SigmoidGate(ctx, gate.data(), gate_stride, x.data(), kRows, kWidth, y.data());
  const auto sigmoid = [&](const DeviceRows& to) {
    return device.SigmoidGate(on_gate, gate_stride, on_x, kRows, kWidth, to);
  };
  CheckRowsOf(device, sigmoid, y, Largest(gate), testing::kGateFactor);
}

inline void CheckSumsAndConversion(Device& device) {
  Arrays arrays(device);
  const std::vector<float> x = Normals(kCount, 1), other = Normals(kCount, 2);
  float* const y = arrays.Place(x);
  Bf16* const narrow = static_cast<Bf16*>(arrays.Allocate(kCount * int64_t{sizeof(Bf16)}));
  ASSERT_EQ(device.Add(arrays.Place(other), kCount, y), absl::OkStatus());
  ASSERT_EQ(device.ConvertToBf16(y, kCount, narrow), absl::OkStatus());
  // The first columns of every row.
  Bf16* const columns = static_cast<Bf16*>(arrays.Allocate(kRows * 3 * int64_t{sizeof(Bf16)}));
  ASSERT_EQ(device.ConvertToBf16(y, kWidth, kRows, 3, columns), absl::OkStatus());
  const std::vector<float> sums = arrays.Read(y, kCount);
  const std::vector<Bf16> rounded = arrays.Read(narrow, kCount);
  const std::vector<Bf16> of_columns = arrays.Read(columns, kRows * 3);
  for (int64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(sums[i], x[i] + other[i]) << i;
    EXPECT_EQ(rounded[i], Bf16::FromFloat(sums[i])) << i;
    if (i % kWidth >= 3) continue;
    EXPECT_EQ(of_columns[i / kWidth * 3 + i % kWidth], rounded[i]) << i;
  }
}

inline void CheckRope(Device& device) {
  constexpr int kHeads = 2, kDim = 22;
  const std::vector<int64_t> positions = {7, 1000003, 0, 64, 63};
  for (RopePairs pairs : {RopePairs::kHalves, RopePairs::kInterleaved}) {
    Arrays arrays(device);
    OpContext ctx;
    const RopeAngles angles{.pairs = pairs};
    const std::vector<float> x = Normals(kRows * kHeads * kDim, 1);
    std::vector<float> cosines(kRows * kDim / 2), sines(kRows * kDim / 2), expected = x;
    RopeFactors(ctx, angles, positions, kDim, cosines.data(), sines.data());
    for (int64_t row = 0; row < kRows; ++row) {
      Rope(ctx, angles, positions[row], 1, kHeads * kDim, kHeads, kDim,
           expected.data() + row * kHeads * kDim);
    }
    float* const turned = arrays.Place(x);
    ASSERT_EQ(device.Rope({kRows, kDim, kHeads}, pairs, arrays.Place(cosines), arrays.Place(sines),
                          turned),
              absl::OkStatus());
    ExpectClose(
        arrays.Read(turned, kRows * kHeads * kDim), expected,
        [&](int64_t) { return 2 * Largest(x); }, testing::kRopeFactor);
  }
}

// Two sequences with keys and values, one after the other in the same rows.
inline void CheckGatedScan(Device& device) {
  Arrays arrays(device);
  OpContext ctx;
  const int64_t rows[] = {3, 2};
  const std::vector<float> z = Normals(kCount, 1), bias = Normals(kWidth, 2);
  const std::vector<float> x[] = {Normals(kCount, 3), Normals(kCount, 4)};
  const std::vector<float> state = Normals(4 * kWidth, 5);
  std::vector<float> expected[] = {std::vector<float>(kCount), std::vector<float>(kCount)};
  std::vector<float> last = state;
  float* const on_state = arrays.Place(state);
  const float* const on_z = arrays.Place(z);
  const float* const on_x[] = {arrays.Place(x[0]), arrays.Place(x[1])};
  float* const on_y[] = {arrays.Place(x[0]), arrays.Place(x[1])};
  std::vector<GatedScanSegment> segments(2);
  for (int64_t s = 0; s < 2; ++s) {
    const int64_t first = s * rows[0] * kWidth;
    segments[s].z = on_z + first;
    segments[s].rows = rows[s];
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t at = (2 * s + i) * kWidth;
      segments[s].x[i] = on_x[i] + first;
      segments[s].y[i] = on_y[i] + first;
      segments[s].state[i] = on_state + at;
      GatedScan(ctx, z.data() + first, bias.data(), x[i].data() + first, kWidth, rows[s], kWidth,
                last.data() + at, expected[i].data() + first, kWidth);
    }
  }
  const auto plan =
      PlanGatedScan({.segments = 2, .max_rows = rows[0], .channels = kWidth, .inputs = 2},
                    device.multiprocessors());
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(
      device.GatedScan(*plan, {arrays.Place(segments), 2, arrays.Place(bias), kWidth, kWidth}),
      absl::OkStatus());
  const double magnitude = 5 * (1 + Largest(z) + Largest(bias));  // of numbers that are normal
  const auto same = [&](int64_t) { return magnitude; };
  for (int i = 0; i < 2; ++i) {
    ExpectClose(arrays.Read(on_y[i], kCount), expected[i], same, testing::kGatedScanFactor);
  }
  ExpectClose(arrays.Read(on_state, 4 * kWidth), last, same, testing::kGatedScanFactor);
}

inline void CheckRangeAttention(Device& device) {
  constexpr int kHeads = 4, kKvHeads = 2, kDim = 11;
  constexpr int64_t kEntries = 40, kOut = kRows * kHeads * kDim;
  Arrays arrays(device);
  OpContext ctx;
  const std::vector<float> q = Normals(kOut, 1), slopes = {0.0f, 0.1f, 0.2f, 0.4f};
  std::vector<float> keys[kMaxRanges], values[kMaxRanges];
  std::array<KvSpan, kMaxRanges> parts;
  std::vector<KvSpan> on_parts;
  for (uint32_t p = 0; p < kMaxRanges; ++p) {
    keys[p] = Normals(kEntries * kKvHeads * kDim, 10 + p);
    values[p] = Normals(kEntries * kKvHeads * kDim, 20 + p);
    parts[p] = {keys[p].data(), values[p].data()};
    on_parts.push_back({arrays.Place(keys[p]), arrays.Place(values[p])});
  }
  std::vector<RangeSet> sets(kRows);
  for (int64_t row = 0; row < kRows; ++row) {
    sets[row].ranges = {RangeSet::Range{0, row}, {row, 3 * row}, {row, 40}};
  }
  std::vector<float> expected(kOut);
  RangeAttention(ctx, {kHeads, kKvHeads, kDim, slopes.data()}, q.data(), kHeads * kDim, kRows,
                 parts, sets.data(), expected.data());
  const auto plan = PlanRangeAttention({.rows = kRows,
                                        .heads = kHeads,
                                        .kv_heads = kKvHeads,
                                        .head_dim = kDim,
                                        .max_entries = 3 * kEntries},
                                       device.multiprocessors());
  ASSERT_TRUE(plan.ok()) << plan.status();
  RangeDeviceArrays in;
  in.q = arrays.Place(q);
  in.q_stride = kHeads * kDim;
  in.parts = arrays.Place(on_parts);
  in.sets = arrays.Place(sets);
  in.slopes = arrays.Place(slopes);
  in.workspace = arrays.Allocate(plan->workspace_bytes);
  in.out = static_cast<float*>(arrays.Allocate(kOut * int64_t{sizeof(float)}));
  ASSERT_EQ(device.RangeAttention(*plan, in), absl::OkStatus());
  // Normal numbers are below 5: so is a score below 25 sqrt(kDim), without its bias.
  ExpectClose(
      arrays.Read(in.out, kOut), expected, [](int64_t) { return 5 * (1 + 25 * std::sqrt(kDim)); },
      testing::kAttentionFactor);
}

// Numbers as floats that a format has.
inline std::vector<float> Rounded(std::vector<float> numbers, DType dtype) {
  if (dtype == DType::kBf16) {
    for (float& number : numbers) number = recollect::RoundToBf16(number);
  }
  return numbers;
}

inline void* PlaceAs(Arrays& arrays, const std::vector<float>& numbers, DType dtype) {
  if (dtype == DType::kFloat32) return arrays.Place(numbers);
  std::vector<Bf16> narrow;
  for (const float number : numbers) narrow.push_back(Bf16::FromFloat(number));
  return arrays.Place(narrow);
}

// Two sequences, one of them with grouped heads' rows enough for two tiles.
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
        return static_cast<const Bf16*>(PlaceAs(arrays, numbers[i], DType::kBf16));
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
  TileDeviceArrays in;
  in.q = static_cast<const Bf16*>(PlaceAs(arrays, q, DType::kBf16));
  in.q_stride = kHeads * kDim;
  in.kv_stride = kKvHeads * kDim;
  in.tiles = arrays.Place(tiles);
  in.sets = arrays.Place(sets);
  in.workspace = arrays.Allocate(plan->workspace_bytes);
  in.out = static_cast<float*>(arrays.Allocate(kOut * int64_t{sizeof(float)}));
  ASSERT_EQ(device.TileAttention(*plan, in), absl::OkStatus());
  ExpectClose(
      arrays.Read(in.out, kOut), expected,
      [](int64_t) { return 5 * (1 + 25 * std::sqrt(kDim) + testing::kBf16Probabilities); },
      testing::kAttentionFactor);
}

inline void CheckGca(Device& device, DType q_dtype) {
  const GcaShape shape{4, 2, 12};
  const int64_t width = int64_t{shape.heads} * shape.head_dim, memory_width = width / 2;
  const std::vector<int> chunk_rows = {63, 2, 17};
  Arrays arrays(device);
  OpContext ctx;
  const std::vector<float> q = Rounded(Normals(kRows * width, 1), q_dtype);
  const std::vector<float> weights = {0.5f, 0.25f, 0.125f};
  std::vector<std::vector<Bf16>> kept;
  std::vector<MemoryView> chunks, on_chunks;
  kept.reserve(2 * chunk_rows.size());
  for (const int rows : chunk_rows) {
    const auto seed = static_cast<uint32_t>(rows);
    const auto& keys = kept.emplace_back(NormalBf16(rows * memory_width, seed));
    const auto& values = kept.emplace_back(NormalBf16(rows * memory_width, seed + 1));
    chunks.push_back({keys.data(), values.data(), rows});
    on_chunks.push_back({arrays.Place(keys), arrays.Place(values), rows});
  }
  // Rows that see all chunks, and a row that sees the last one.
  const std::vector<GcaGroup> groups = {{0, 0, 4, 3}, {4, 2, 1, 1}};
  std::vector<float> expected(q.size());
  for (const GcaGroup& group : groups) {
    Gca(ctx, shape, q.data() + group.first_row * width, group.rows,
        chunks.data() + group.first_chunk, weights.data() + group.first_chunk, group.chunks,
        expected.data() + group.first_row * width);
  }
  const auto plan = PlanGca(
      shape, {.groups = 2, .rows = kRows, .max_group_rows = 4, .max_group_chunks = 3}, q_dtype);
  ASSERT_TRUE(plan.ok()) << plan.status();
  GcaDeviceArrays in;
  in.q = PlaceAs(arrays, q, q_dtype);
  in.groups = arrays.Place(groups);
  in.group_count = 2;
  in.chunks = arrays.Place(on_chunks);
  in.weights = arrays.Place(weights);
  in.workspace = arrays.Allocate(plan->workspace_bytes);
  in.out = static_cast<float*>(arrays.Allocate(kRows * width * int64_t{sizeof(float)}));
  ASSERT_EQ(device.Gca(*plan, in), absl::OkStatus());
  const double rounded = q_dtype == DType::kBf16 ? testing::kBf16Probabilities : 0;
  const double magnitude = 5 * (1 + 25 * std::sqrt(shape.head_dim) + rounded);
  ExpectClose(
      arrays.Read(in.out, kRows * width), expected, [&](int64_t) { return magnitude; },
      testing::kGcaFactor);
}

inline void CheckGca(Device& device) {
  CheckGca(device, DType::kFloat32);
  CheckGca(device, DType::kBf16);
}

inline void CheckGemm(Device& device) {
  using enum DType;
  constexpr int64_t kN = 24, kK = 40;
  const GemmShape shapes[] = {
      {kN, kK}, {kN, kK, kFloat32, kFloat32, true}, {kN, kK, kBf16}, {kN, kK, kBf16, kBf16, true}};
  for (const GemmShape& shape : shapes) {
    SCOPED_TRACE(absl::StrCat(NameOf(shape), shape.add ? ", added" : ""));
    Arrays arrays(device);
    const std::vector<float> weights = Rounded(Normals(kN * kK, 1), shape.in);
    const std::vector<float> x = Rounded(Normals(kRows * kK, 2), shape.in);
    const std::vector<float> before = Rounded(Normals(kRows * kN, 3), shape.out);
    std::vector<float> expected(kRows * kN);
    GemmReference(weights.data(), kN, kK, kFloat32, x.data(), kRows, expected.data());
    void* const y = PlaceAs(arrays, before, shape.out);
    ASSERT_EQ(device.PrepareGemm(shape), absl::OkStatus());
    ASSERT_EQ(device.Gemm(shape, PlaceAs(arrays, weights, shape.in), PlaceAs(arrays, x, shape.in),
                          kRows, y),
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

// Three rows: one pointed to nowhere, one to many tokens, one whose sentinel is the surest.
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
  ASSERT_EQ(
      device.MixPointed(kRows, kWidth, kSentinel, arrays.Place(all), arrays.Place(ends), on_device),
      absl::OkStatus());
  const std::vector<float> mixed = arrays.Read(on_device, kCount);
  EXPECT_EQ(device.MixPointed(1, kWidth, kWidth, nullptr, nullptr, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
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
  ASSERT_EQ(device.Sample(on_device, kRows, kWidth, never, arrays.Place(settings), choices),
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
