#include "kernels/linear_attention/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels {
namespace {

using namespace recollect::testing;  // factors

TEST(FeaturesTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (const FeatureMap map : {FeatureMap::kSoftmax, FeatureMap::kRelu}) {
      for (int dim : {2, 6, 8, 16, 34, 64, 128}) {
        for (bool scaled : {false, true}) {
          SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", dim));
          const int heads = 3;
          const int64_t rows = 4, stride = heads * dim + 5;
          Guarded x(Normals(rows * stride, 1, 4)), scale(Normals(dim, 2));
          const float* s = scaled ? scale.data() : nullptr;
          Guarded y(rows * heads * 2 * dim), expected(rows * heads * 2 * dim);
          Features(ctx, map, x.data(), stride, rows, heads, dim, s, y.data());
          Features(Scalar(), map, x.data(), stride, rows, heads, dim, s, expected.data());
          double largest = 0;
          for (int64_t i = 0; i < rows * stride; ++i) {
            largest = std::max<double>(largest, std::abs(x[i]) * 4);
          }
          for (int64_t i = 0; i < rows * heads * 2 * dim; ++i) {
            const double magnitude = map == FeatureMap::kRelu ? std::abs(expected[i]) : 1 + largest;
            EXPECT_CLOSE(y[i], expected[i], magnitude, kFeatureFactor);
          }
        }
      }
    }
  }
}

TEST(FeaturesTest, LargeChannelsDoNotOverflow) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    const std::vector<float> x = {500, -500, 0, 0};
    std::vector<float> y(8);
    Features(ctx, FeatureMap::kSoftmax, x.data(), 4, 1, 1, 4, nullptr, y.data());
    EXPECT_EQ(y[0], 1);
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(y[4], 0);
    EXPECT_EQ(y[5], 1);
  }
}

struct Case {
  LinearAttentionShape shape;
  int64_t rows, entering;
  bool initial;
};
const Case kCases[] = {
    {{1, 1, 2}, 1, 1, false},  {{4, 2, 8}, 30, 24, false}, {{4, 2, 8}, 30, 30, true},
    {{6, 2, 34}, 9, 0, true},  {{3, 3, 10}, 17, 3, false}, {{2, 1, 64}, 64, 64, false},
    {{4, 1, 128}, 5, 5, true}, {{2, 2, 16}, 0, 0, false},
};

struct Inputs {
  explicit Inputs(const Case& c)
      : size(2 * int64_t{c.shape.head_dim} * c.shape.head_dim),
        q(Normals(c.rows * c.shape.heads * 2 * c.shape.head_dim, 1)),
        keys(Normals(c.entering * c.shape.kv_heads * 2 * c.shape.head_dim, 2)),
        values(Normals(c.entering * c.shape.kv_heads * c.shape.head_dim, 3)),
        initial(Normals(c.shape.heads * size, 4)),
        state(Normals(c.shape.kv_heads * size, 5)) {}
  int64_t size;
  std::vector<float> q, keys, values, initial, state;
};

TEST(LinearAttentionTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (const Case& c : kCases) {
      SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", c.shape.heads, "/", c.shape.kv_heads,
                                " heads of ", c.shape.head_dim, ", ", c.rows, " rows"));
      Inputs in(c), other(c), magnitudes(c);
      const float* initial = c.initial ? in.initial.data() : nullptr;
      const EnteringRows entering{in.keys.data(), in.values.data(), c.entering};
      const int64_t count = c.rows * c.shape.heads * c.shape.head_dim;
      Guarded out(count), expected(count), state(in.state);
      LinearAttention(ctx, c.shape, in.q.data(), c.rows, entering, initial, state.data(),
                      out.data());
      LinearAttention(Scalar(), c.shape, other.q.data(), c.rows, entering, initial,
                      other.state.data(), expected.data());
      // The same over absolute values says how much was added up.
      for (auto* numbers : {&magnitudes.q, &magnitudes.keys, &magnitudes.values,
                            &magnitudes.initial, &magnitudes.state}) {
        for (float& v : *numbers) v = std::abs(v);
      }
      std::vector<float> sums(count);
      LinearAttention(Scalar(), c.shape, magnitudes.q.data(), c.rows,
                      {magnitudes.keys.data(), magnitudes.values.data(), c.entering},
                      c.initial ? magnitudes.initial.data() : nullptr, magnitudes.state.data(),
                      sums.data());
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_CLOSE(out[i], expected[i], sums[i], kLinearAttentionFactor);
      }
      for (int64_t i = 0; i < static_cast<int64_t>(in.state.size()); ++i) {
        EXPECT_CLOSE(state[i], other.state[i], magnitudes.state[i], kLinearAttentionFactor);
      }
    }
  }
}

TEST(LinearAttentionTest, AnyCutGivesTheSameBits) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (const Case& c : kCases) {
      const Inputs in(c);
      const float* initial = c.initial ? in.initial.data() : nullptr;
      const int64_t q_width = c.shape.heads * 2 * c.shape.head_dim;
      const int64_t key_width = c.shape.kv_heads * 2 * c.shape.head_dim;
      std::vector<float> whole, whole_state;
      for (int64_t cut : {c.rows + 1, int64_t{1}, int64_t{7}}) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), ", ", c.rows, " rows by ", cut));
        std::vector<float> out(c.rows * q_width / 2), state = in.state;
        for (int64_t r = 0; r < c.rows; r += cut) {
          const int64_t rows = std::min(cut, c.rows - r);
          // Entries that enter before row r, and before the end of this call.
          const int64_t before = std::max<int64_t>(r - (c.rows - c.entering), 0);
          const int64_t end = std::max<int64_t>(r + rows - (c.rows - c.entering), 0);
          LinearAttention(ctx, c.shape, in.q.data() + r * q_width, rows,
                          {in.keys.data() + before * key_width,
                           in.values.data() + before * key_width / 2, end - before},
                          initial, state.data(), out.data() + r * q_width / 2);
        }
        if (whole_state.empty()) {
          whole = out;
          whole_state = state;
        }
        EXPECT_TRUE(SameBits(out, whole));
        EXPECT_TRUE(SameBits(state, whole_state));
      }
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
