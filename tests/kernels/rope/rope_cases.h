// The calls that RoPE is tested on, with their tolerances, and how they run on the CPU and on a
// device.
#pragma once

#include <vector>

#include "kernels/rope/rope.h"
#include "kernels/rope/rope_operation.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::rope_cases {

// x[rows, heads, head_dim], rows `stride` apart.
struct Call {
  static constexpr int kWays = 4;  // of RunOnDevice
  RopeAngles angles;
  std::vector<int64_t> positions;  // one a row
  int heads = 1, head_dim = 0;
  std::vector<float> x = {};

  int64_t rows() const { return static_cast<int64_t>(positions.size()); }
  int64_t stride() const { return int64_t{heads} * head_dim + 3; }
};

// Divisors for heads of up to 128 channels: fast pairs keep their angles, slow ones turn 8 times
// slower.
inline std::span<const double> Divisors() {
  static const std::vector<double> divisors = [] {
    std::vector<double> made(64, 8);
    for (size_t j = 0; j < 8; ++j) made[j] = 1 + static_cast<double>(j) / 3;
    return made;
  }();
  return divisors;
}

inline std::vector<RopeAngles> Angles() {
  return {{},
          {.base = 500000, .pairs = RopePairs::kInterleaved},
          {.step = 3},
          {.pairs = RopePairs::kInterleaved, .step = 64},
          {.base = 500000, .divisors = Divisors()},
          {.pairs = RopePairs::kInterleaved, .divisors = Divisors()}};
}

// Positions of rows out of order, of one session and of others.
inline std::vector<int64_t> Positions() { return {1000003, 0, 1, 63, 64, 64, 16777213, 7, 8, 2}; }

// Positions of no row, one row, rows out of order, and five rows in a row from several places up to
// sixteen million.
inline std::vector<std::vector<int64_t>> ListsOfPositions() {
  std::vector<std::vector<int64_t>> lists = {{}, {5}, Positions()};
  for (const int64_t first : {0, 1, 63, 64, 1000003, 16777213}) {
    lists.push_back({first, first + 1, first + 2, first + 3, first + 4});
  }
  return lists;
}

inline Call CallOf(const RopeAngles& angles, int heads, int head_dim,
                   const std::vector<int64_t>& positions) {
  Call call{angles, positions, heads, head_dim};
  if (!angles.divisors.empty()) call.angles.divisors = angles.divisors.first(head_dim / 2);
  call.x = Normals(call.rows() * call.stride(), 1);
  return call;
}

inline std::vector<Call> Calls() {
  std::vector<Call> calls;
  for (const RopeAngles& angles : Angles()) {
    for (int head_dim : {0, 2, 6, 8, 16, 34, 64, 128}) {
      for (int heads : {1, 3}) {
        for (const auto& positions : ListsOfPositions()) {
          calls.push_back(CallOf(angles, heads, head_dim, positions));
        }
      }
    }
  }
  return calls;
}

inline std::string NameOf(const Call& call) {
  return absl::StrCat(call.rows(), " rows of ", call.heads, " x ", call.head_dim, " from ",
                      call.rows() == 0 ? 0 : call.positions[0], ", base ", call.angles.base,
                      ", step ", call.angles.step, call.angles.divisors.empty() ? "" : ", divided");
}

inline Call RowOf(const Call& call, int64_t row) {
  Call alone = call;
  alone.positions = {call.positions[row]};
  const auto begin = call.x.begin() + row * call.stride();
  alone.x.assign(begin, begin + call.stride());
  return alone;
}

// Runs a call and returns x afterwards. On the CPU, rows at consecutive positions go together.
inline std::vector<float> RunOnCpu(OpContext& ctx, const Call& call) {
  Guarded x(call.x);
  for (int64_t row = 0; row < call.rows();) {
    const int64_t first = row, position = call.positions[row];
    while (row < call.rows() && call.positions[row] == position + row - first) ++row;
    Rope(ctx, call.angles, position, row - first, call.stride(), call.heads, call.head_dim,
         x.data() + first * call.stride());
  }
  return x.values();
}

// Runs a call with arrays that begin `way` floats past aligned addresses, up to three.
inline std::vector<float> RunOnDevice(Device& device, const Call& call, int way) {
  const int64_t factors = call.rows() * call.head_dim / 2;
  std::vector<float> cosines(factors), sines(factors);
  OpContext ctx;
  RopeFactors(ctx, call.angles, call.positions, call.head_dim, cosines.data(), sines.data());
  device_cases::Arrays arrays(device);
  float* const x = arrays.Place(call.x, way);
  EXPECT_EQ(device.Run(RopeOp{{call.rows(), call.head_dim, call.heads, call.stride()},
                              call.angles.pairs,
                              arrays.Place(cosines, way),
                              arrays.Place(sines, way),
                              x}),
            absl::OkStatus());
  return arrays.Read(x, static_cast<int64_t>(call.x.size()));
}

inline void ExpectMatchesReference(const Call& call, const std::vector<float>& x) {
  const std::vector<float> expected = RunOnCpu(Scalar(), call);
  ASSERT_EQ(x.size(), expected.size());
  const int64_t dim = call.head_dim, half = dim / 2;
  const bool halves = call.angles.pairs == RopePairs::kHalves;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const int64_t column = i % call.stride();
    if (column >= call.heads * dim) {
      EXPECT_EQ(x[i], call.x[i]) << "between rows, at " << i;
      continue;
    }
    const bool is_first = halves ? column % dim < half : column % 2 == 0;
    const int64_t distance = halves ? half : 1;
    const int64_t other = is_first ? i + distance : i - distance;
    EXPECT_CLOSE(x[i], expected[i], std::abs(call.x[i]) + std::abs(call.x[other]),
                 testing::kRopeFactor)
        << "at " << i;
  }
}

}  // namespace recollect::kernels::rope_cases
