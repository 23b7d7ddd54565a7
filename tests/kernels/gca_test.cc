#include "kernels/gca.h"

#include <algorithm>

#include "kernels/reference.h"
#include "tests/kernels/kernel_test_util.h"

namespace recollect::kernels {
namespace {

struct Case {
  GcaShape shape;
  int64_t rows;
  std::vector<int> chunk_rows;
};

std::vector<Case> Cases() {
  return {
      {{4, 4, 64}, 0, {63}},
      {{4, 4, 64}, 3, {}},
      {{4, 4, 64}, 1, {1}},
      {{4, 4, 64}, 64, {63, 63, 63, 63, 63, 63, 63, 63}},
      {{4, 2, 64}, 5, {63, 1, 16, 17}},
      {{6, 2, 10}, 17, {15, 63}},
      {{2, 1, 16}, 33, {48, 49}},
      {{3, 3, 72}, 2, {2, 33}},
  };
}

struct Inputs {
  Inputs(const Case& c, float deviation)
      : width(static_cast<int64_t>(c.shape.heads) * c.shape.head_dim),
        q(Normals(c.rows * width, 1, deviation)) {
    const int64_t memory_width = static_cast<int64_t>(c.shape.kv_heads) * c.shape.head_dim;
    for (size_t e = 0; e < c.chunk_rows.size(); ++e) {
      const auto seed = static_cast<uint32_t>(10 * e);
      // One number before: memory is misaligned.
      keys.push_back(NormalBf16(c.chunk_rows[e] * memory_width + 1, seed + 2, deviation));
      values.push_back(NormalBf16(c.chunk_rows[e] * memory_width + 1, seed + 3));
      weights.push_back(1.0f / static_cast<float>(e + 2));
    }
    for (size_t e = 0; e < c.chunk_rows.size(); ++e) {
      chunks.push_back({keys[e].data() + 1, values[e].data() + 1, c.chunk_rows[e]});
    }
  }
  int64_t width;
  std::vector<float> q;
  std::vector<std::vector<Bf16>> keys, values;
  std::vector<float> weights;
  std::vector<MemoryView> chunks;
};

double Magnitude(const Case& c, const Inputs& in, int64_t row, int head) {
  double magnitude = 0;
  for (size_t e = 0; e < in.chunks.size(); ++e) {
    double largest_value = 0, largest_score = 0;
    for (int j = 0; j < in.chunks[e].rows; ++j) {
      double score = 0;
      for (int d = 0; d < c.shape.head_dim; ++d) {
        const int kv_head = head * c.shape.kv_heads / c.shape.heads;
        const int64_t at = (j * c.shape.kv_heads + kv_head) * c.shape.head_dim + d;
        score += std::abs(in.q[row * in.width + head * c.shape.head_dim + d] *
                          in.chunks[e].keys[at].ToFloat());
        largest_value =
            std::max<double>(largest_value, std::abs(in.chunks[e].values[at].ToFloat()));
      }
      largest_score = std::max(largest_score, score / std::sqrt(c.shape.head_dim));
    }
    magnitude += in.weights[e] * largest_value * (1 + largest_score);
  }
  return magnitude;
}

TEST(GcaTest, MatchesReference) {
  for (const auto& implementation : Runnable(GcaImplementations())) {
    OpContext ctx(implementation.isa);
    for (const Case& c : Cases()) {
      // Large scores: the off-by-one vanishes beside them; small ones: it dominates.
      for (float deviation : {0.1f, 1.0f, 5.0f}) {
        SCOPED_TRACE(absl::StrCat(implementation.name, ", ", c.rows, " rows, ", c.chunk_rows.size(),
                                  " chunks, deviation ", deviation));
        const Inputs in(c, deviation);
        Guarded out(c.rows * in.width), expected(c.rows * in.width);
        implementation.function(ctx, c.shape, in.q.data(), c.rows, in.chunks, in.weights,
                                out.data());
        reference::Gca(ctx, c.shape, in.q.data(), c.rows, in.chunks, in.weights, expected.data());
        for (int64_t r = 0; r < c.rows; ++r) {
          for (int h = 0; h < c.shape.heads; ++h) {
            const double magnitude = Magnitude(c, in, r, h);
            for (int d = 0; d < c.shape.head_dim; ++d) {
              const int64_t at = r * in.width + h * c.shape.head_dim + d;
              EXPECT_CLOSE(out[at], expected[at], magnitude, testing::kGcaFactor);
            }
          }
        }
      }
    }
  }
}

TEST(GcaTest, ARowHasTheSameBitsInAnyCompany) {
  for (const auto& implementation : Runnable(GcaImplementations())) {
    OpContext ctx(implementation.isa);
    for (const Case& c : Cases()) {
      const Inputs in(c, 1);
      std::vector<float> whole(c.rows * in.width);
      implementation.function(ctx, c.shape, in.q.data(), c.rows, in.chunks, in.weights,
                              whole.data());
      for (int64_t step : {1, 3, 16}) {
        SCOPED_TRACE(absl::StrCat(implementation.name, ", ", c.rows, " rows, step ", step));
        std::vector<float> out(c.rows * in.width);
        for (int64_t r = 0; r < c.rows; r += step) {
          implementation.function(ctx, c.shape, in.q.data() + r * in.width,
                                  std::min(step, c.rows - r), in.chunks, in.weights,
                                  out.data() + r * in.width);
        }
        EXPECT_TRUE(SameBits(out, whole));
      }
    }
  }
}

TEST(GcaTest, ChunksDoNotShareASoftmax) {
  const Case c{{2, 2, 64}, 4, {63, 20}};
  const Inputs in(c, 1);
  for (const auto& implementation : Runnable(GcaImplementations())) {
    SCOPED_TRACE(implementation.name);
    OpContext ctx(implementation.isa);
    std::vector<float> both(c.rows * in.width), sum(c.rows * in.width);
    implementation.function(ctx, c.shape, in.q.data(), c.rows, in.chunks, in.weights, both.data());
    for (size_t e = 0; e < in.chunks.size(); ++e) {
      const float one = 1;
      std::vector<float> out(c.rows * in.width);
      implementation.function(ctx, c.shape, in.q.data(), c.rows, {&in.chunks[e], 1}, {&one, 1},
                              out.data());
      for (size_t i = 0; i < out.size(); ++i) sum[i] += in.weights[e] * out[i];
    }
    for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(both[i], sum[i], 1e-5);
  }
}

// All scores equal 0: each of n rows gets 1 / (1 + n), exactly what "off by one" means.
TEST(GcaTest, SoftmaxIsOffByOne) {
  const GcaShape shape{1, 1, 16};
  const std::vector<float> q(16, 0.0f);
  const std::vector<Bf16> memory(3 * 16, Bf16::FromFloat(1.0f));
  const MemoryView chunk{memory.data(), memory.data(), 3};
  const float weight = 1;
  for (const auto& implementation : Runnable(GcaImplementations())) {
    OpContext ctx(implementation.isa);
    std::vector<float> out(16);
    implementation.function(ctx, shape, q.data(), 1, {&chunk, 1}, {&weight, 1}, out.data());
    for (float v : out) EXPECT_FLOAT_EQ(v, 0.75f);
  }
}

}  // namespace
}  // namespace recollect::kernels
