// What any device run of RoPE must do, checked on the host run of the kernels' blocks and on a GPU
// alike: a runner is called as run(call, shift) and returns x afterwards; x, cosines and sines
// begin `shift` floats past aligned addresses.
#ifndef RECOLLECT_TESTS_KERNELS_ROPE_ROPE_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_ROPE_ROPE_DEVICE_CHECKS_H_

#include "kernels/rope/rope.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels::rope_cases {

struct Call {
  RopeAngles angles;
  std::vector<int64_t> positions;  // one a row
  RowSizes sizes = {};
  std::vector<float> cosines = {}, sines = {}, x = {};
};

// Rows at positions out of order, of one session and of others.
inline std::vector<int64_t> Positions() { return {1000003, 0, 1, 63, 64, 64, 16777213, 7, 8, 2}; }

inline Call CallOf(const RopeAngles& angles, int64_t heads, int64_t head_dim,
                   const std::vector<int64_t>& positions) {
  Call call = {.angles = angles, .positions = positions};
  const auto rows = static_cast<int64_t>(positions.size());
  call.sizes = {rows, head_dim, heads, heads * head_dim + 3};
  call.cosines.resize(rows * head_dim / 2);
  call.sines.resize(rows * head_dim / 2);
  OpContext ctx;
  RopeFactors(ctx, angles, positions, static_cast<int>(head_dim), call.cosines.data(),
              call.sines.data());
  call.x = Normals(rows * call.sizes.stride, 1);
  return call;
}

// The kernels' thread blocks, on the host.
inline std::vector<float> RunOnHost(const Call& call, size_t shift, HostOrder order) {
  HostArray<float> cosines(call.cosines, shift), sines(call.sines, shift), x(call.x, shift);
  EXPECT_EQ(
      RopeOnHost(order, call.sizes, call.angles.pairs, cosines.data(), sines.data(), x.data()),
      absl::OkStatus());
  return x.Download();
}

// What the CPU makes of every row at its position.
inline std::vector<float> RowByRow(OpContext& ctx, const Call& call) {
  std::vector<float> x = call.x;
  for (int64_t row = 0; row < call.sizes.rows; ++row) {
    Rope(ctx, call.angles, call.positions[row], 1, call.sizes.stride,
         static_cast<int>(call.sizes.heads), static_cast<int>(call.sizes.width),
         x.data() + row * call.sizes.stride);
  }
  return x;
}

inline void ExpectMatchesReference(const Call& call, const std::vector<float>& x) {
  const std::vector<float> expected = RowByRow(Scalar(), call);
  const int64_t dim = call.sizes.width, half = dim / 2;
  const bool halves = call.angles.pairs == RopePairs::kHalves;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const int64_t column = i % call.sizes.stride;
    if (column >= call.sizes.heads * dim) {
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

inline std::vector<RopeAngles> Angles() {
  return {{},
          {.base = 500000, .pairs = RopePairs::kInterleaved},
          {.step = 3},
          {.pairs = RopePairs::kInterleaved, .step = 64}};
}

// The reference within its factor, and the bits of the CPU's vector code.
template <typename Runner>
void CheckMatchesReferenceAndTheBitsOfTheCpu(const Runner& run) {
  for (const RopeAngles& angles : Angles()) {
    for (int64_t head_dim : {0, 2, 6, 8, 16, 34, 64, 128}) {
      for (int64_t heads : {1, 3}) {
        for (const auto& positions : {std::vector<int64_t>(), {5}, Positions()}) {
          SCOPED_TRACE(absl::StrCat(positions.size(), " rows of ", heads, " x ", head_dim,
                                    ", base ", angles.base, ", step ", angles.step));
          const Call call = CallOf(angles, heads, head_dim, positions);
          const std::vector<float> x = run(call, 0);
          ExpectMatchesReference(call, x);
          for (size_t shift : {1, 2}) EXPECT_TRUE(SameBits(run(call, shift), x)) << shift;
          for (const Isa isa : RunnableIsas()) {
            if (isa == Isa::kScalar || head_dim == 0) continue;
            OpContext ctx(isa);
            EXPECT_TRUE(SameBits(RowByRow(ctx, call), x)) << IsaName(isa);
          }
        }
      }
    }
  }
}

template <typename Runner>
void CheckARowHasTheSameBitsInAnyBatch(const Runner& run) {
  for (const RopeAngles& angles : Angles()) {
    const Call call = CallOf(angles, 5, 34, Positions());
    const std::vector<float> whole = run(call, 0);
    const int64_t stride = call.sizes.stride;
    for (int64_t row = 0; row < call.sizes.rows; ++row) {
      Call alone = CallOf(angles, 5, 34, {call.positions[row]});
      alone.x.assign(call.x.begin() + row * stride, call.x.begin() + (row + 1) * stride);
      EXPECT_TRUE(SameBits(run(alone, row % 4), std::span(whole).subspan(row * stride, stride)))
          << row;
    }
  }
}

}  // namespace recollect::kernels::rope_cases

#endif  // RECOLLECT_TESTS_KERNELS_ROPE_ROPE_DEVICE_CHECKS_H_
