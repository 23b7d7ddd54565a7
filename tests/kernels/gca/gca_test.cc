#include "kernels/gca/gca.h"

#include <algorithm>

#include "tests/kernels/gca/gca_cases.h"

namespace recollect::kernels {
namespace {

using gca_cases::Case;
using gca_cases::Cases;
using gca_cases::Inputs;

TEST(GcaTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (const Case& c : Cases()) {
      // Large scores: the off-by-one vanishes beside them; small ones: it dominates.
      for (float deviation : {0.1f, 1.0f, 5.0f}) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), ", ", c.rows, " rows, ", c.chunk_rows.size(),
                                  " chunks, deviation ", deviation));
        const Inputs in(c, deviation);
        Guarded out(c.rows * in.width);
        Gca(ctx, c.shape, in.q.data(), c.rows, in.chunks.data(), in.weights.data(), in.count(),
            out.data());
        gca_cases::ExpectMatchesReference(c, in, out.values());
      }
    }
  }
}

TEST(GcaTest, ARowHasTheSameBitsInAnyBatch) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (const Case& c : Cases()) {
      const Inputs in(c, 1);
      std::vector<float> whole(c.rows * in.width);
      Gca(ctx, c.shape, in.q.data(), c.rows, in.chunks.data(), in.weights.data(), in.count(),
          whole.data());
      for (int64_t step : {1, 3, 16}) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), ", ", c.rows, " rows, step ", step));
        std::vector<float> out(c.rows * in.width);
        for (int64_t r = 0; r < c.rows; r += step) {
          Gca(ctx, c.shape, in.q.data() + r * in.width, std::min(step, c.rows - r),
              in.chunks.data(), in.weights.data(), in.count(), out.data() + r * in.width);
        }
        EXPECT_TRUE(SameBits(out, whole));
      }
    }
  }
}

TEST(GcaTest, ChunksDoNotShareASoftmax) {
  const Case c{{2, 2, 64}, 4, {63, 20}};
  const Inputs in(c, 1);
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(IsaName(isa));
    OpContext ctx(isa);
    std::vector<float> both(c.rows * in.width), sum(c.rows * in.width);
    Gca(ctx, c.shape, in.q.data(), c.rows, in.chunks.data(), in.weights.data(), in.count(),
        both.data());
    for (size_t e = 0; e < in.chunks.size(); ++e) {
      const float one = 1;
      std::vector<float> out(c.rows * in.width);
      Gca(ctx, c.shape, in.q.data(), c.rows, &in.chunks[e], &one, 1, out.data());
      for (size_t i = 0; i < out.size(); ++i) sum[i] += in.weights[e] * out[i];
    }
    for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(both[i], sum[i], 1e-5);
  }
}

// All scores equal 0: each of n rows gets 1 / (1 + n), exactly what "off by one" means; 1 / n
// without.
TEST(GcaTest, SoftmaxIsOffByOneUnlessOrdinary) {
  const GcaShape off_by_one{1, 1, 16}, ordinary{1, 1, 16, false};
  const std::vector<float> q(16, 0.0f);
  const std::vector<Bf16> memory(3 * 16, Bf16::FromFloat(1.0f));
  const MemoryView chunk{memory.data(), memory.data(), 3};
  const float weight = 1;
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    std::vector<float> out(16);
    Gca(ctx, off_by_one, q.data(), 1, &chunk, &weight, 1, out.data());
    for (float v : out) EXPECT_FLOAT_EQ(v, 0.75f);
    Gca(ctx, ordinary, q.data(), 1, &chunk, &weight, 1, out.data());
    for (float v : out) EXPECT_FLOAT_EQ(v, 1.0f);
  }
}

}  // namespace
}  // namespace recollect::kernels
