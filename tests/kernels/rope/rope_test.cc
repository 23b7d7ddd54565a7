#include "kernels/rope/rope.h"

#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels {
namespace {

using namespace recollect::testing;  // factors

void CheckRope(const RopeAngles& angles) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int head_dim : {2, 6, 16, 34, 64, 128}) {
      for (int64_t position : {0, 1, 63, 64, 1000003, 16777213}) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", head_dim, " at ", position));
        const int heads = 3;
        const int64_t rows = 5, stride = heads * head_dim + 3;
        Guarded x(Normals(rows * stride, 1));
        Guarded expected(x.values()), before(x.values());
        Rope(ctx, angles, position, rows, stride, heads, head_dim, x.data());
        Rope(Scalar(), angles, position, rows, stride, heads, head_dim, expected.data());
        for (int64_t i = 0; i < rows * stride; ++i) {
          const int64_t in_row = i % stride;
          if (in_row >= heads * head_dim) {
            EXPECT_EQ(x[i], before[i]);
            continue;
          }
          const int half = head_dim / 2;
          const bool halves = angles.pairs == RopePairs::kHalves;
          const bool is_first = halves ? in_row % head_dim < half : in_row % 2 == 0;
          const int distance = halves ? half : 1;
          const int64_t other = is_first ? i + distance : i - distance;
          EXPECT_CLOSE(x[i], expected[i], std::abs(before[i]) + std::abs(before[other]),
                       kRopeFactor);
        }
        // One row at a time, backwards, through a fresh context: a row depends on its position
        // alone.
        OpContext other_ctx(isa);
        Guarded alone(before.values());
        for (int64_t r = rows - 1; r >= 0; --r) {
          Rope(other_ctx, angles, position + r, 1, stride, heads, head_dim,
               alone.data() + r * stride);
        }
        EXPECT_TRUE(SameBits(alone.values(), x.values()));
      }
    }
  }
}

TEST(RopeTest, MatchesReferenceUpToSixteenMillionPositions) {
  CheckRope({});
  CheckRope({.base = 500000, .pairs = RopePairs::kInterleaved});
  CheckRope({.step = 3});
  CheckRope({.pairs = RopePairs::kInterleaved, .step = 64});
}

TEST(RopeTest, ManyBasesInTurnKeepTheirBits) {
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(IsaName(isa));
    OpContext ctx(isa);
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 12; ++i) {
        Guarded x(Normals(64, 1)), alone(x.values());
        OpContext fresh(isa);
        const RopeAngles angles{.base = 10000.0 + 100 * i};
        Rope(ctx, angles, 1000 + i, 1, 64, 2, 32, x.data());
        Rope(fresh, angles, 1000 + i, 1, 64, 2, 32, alone.data());
        EXPECT_TRUE(SameBits(x.values(), alone.values()));
      }
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
