#include "kernels/range_attention.h"

#include <algorithm>

#include "kernels/reference.h"
#include "tests/kernels/kernel_test_util.h"

namespace recollect::kernels {
namespace {

struct Case {
  const char* name;
  int heads, head_dim;
  int64_t entries;
  std::vector<RangeSet> sets;
};

RangeSet Set(int64_t a0, int64_t a1, int64_t b0, int64_t b1, int64_t c0, int64_t c1) {
  RangeSet set;
  set.ranges[0] = {a0, a1};
  set.ranges[1] = {b0, b1};
  set.ranges[2] = {c0, c1};
  return set;
}

// What a slice of a prompt asks for: a window of 129 that slides by one, a dilated part that slides
// at every 16th row, and two initial entries.
std::vector<RangeSet> Sliding(int64_t rows, int64_t first = 0) {
  std::vector<RangeSet> sets;
  for (int64_t r = first; r < first + rows; ++r) {
    sets.push_back(Set(0, 2, r / 16, r / 16 + 56, r, r + 129));
  }
  return sets;
}

std::vector<Case> Cases() {
  std::vector<RangeSet> causal, whole;
  for (int64_t r = 0; r < 37; ++r) causal.push_back(Set(0, 0, 0, 0, 0, r + 1));
  for (int64_t r = 0; r < 64; ++r) whole.push_back(Set(0, 0, 0, 0, 0, 64));
  return {
      {"no rows", 2, 64, 4, {}},
      {"empty ranges", 2, 64, 4, {Set(0, 0, 0, 0, 0, 0), Set(2, 2, 3, 3, 4, 4)}},
      {"one entry", 1, 64, 1, {Set(0, 0, 0, 1, 0, 0)}},
      {"some rows empty", 3, 64, 40, {Set(0, 0, 0, 0, 0, 0), Set(0, 1, 1, 18, 20, 40)}},
      {"causal", 4, 64, 37, causal},
      {"causal, narrow heads", 3, 10, 37, causal},
      {"causal, heads of one vector", 2, 16, 37, causal},
      {"causal, wide heads", 2, 72, 37, causal},
      {"encoder", 4, 64, 64, whole},
      {"serving", 4, 64, 240, Sliding(70)},
      {"serving, heads of 32", 4, 32, 240, Sliding(20)},
      {"far apart", 2, 64, 240, {Set(0, 3, 0, 5, 0, 2), Set(200, 203, 100, 105, 230, 240)}},
  };
}

struct Inputs {
  explicit Inputs(const Case& c)
      : width(static_cast<int64_t>(c.heads) * c.head_dim),
        rows(static_cast<int64_t>(c.sets.size())),
        q_stride(width + 7),
        q(Normals(rows * q_stride, 1)) {
    for (uint32_t p = 0; p < kMaxRanges; ++p) {
      keys[p] = Normals(c.entries * width, 10 + p);
      values[p] = Normals(c.entries * width, 20 + p);
      parts[p] = {keys[p].data(), values[p].data()};
    }
  }
  int64_t width, rows, q_stride;
  std::vector<float> q;
  std::vector<float> keys[kMaxRanges], values[kMaxRanges];
  std::array<KvSpan, kMaxRanges> parts;
};

double Magnitude(const Case& c, const Inputs& in, int64_t row, int head) {
  double largest_value = 0, largest_score = 0;
  for (int p = 0; p < kMaxRanges; ++p) {
    for (int64_t e = c.sets[row].ranges[p].begin; e < c.sets[row].ranges[p].end; ++e) {
      double score = 0;
      for (int d = 0; d < c.head_dim; ++d) {
        const int64_t at = e * in.width + head * c.head_dim + d;
        largest_value = std::max<double>(largest_value, std::abs(in.values[p][at]));
        score += std::abs(in.q[row * in.q_stride + head * c.head_dim + d] * in.keys[p][at]);
      }
      largest_score = std::max(largest_score, score / std::sqrt(c.head_dim));
    }
  }
  return largest_value * (1 + largest_score);
}

TEST(RangeAttentionTest, MatchesReference) {
  for (const auto& implementation : Runnable(RangeAttentionImplementations())) {
    OpContext ctx(implementation.isa);
    for (const Case& c : Cases()) {
      SCOPED_TRACE(absl::StrCat(implementation.name, ", ", c.name));
      const Inputs in(c);
      Guarded out(in.rows * in.width), expected(in.rows * in.width);
      implementation.function(ctx, in.q.data(), in.q_stride, in.rows, c.heads, c.head_dim, in.parts,
                              c.sets.data(), out.data());
      reference::RangeAttention(ctx, in.q.data(), in.q_stride, in.rows, c.heads, c.head_dim,
                                in.parts, c.sets.data(), expected.data());
      for (int64_t r = 0; r < in.rows; ++r) {
        for (int h = 0; h < c.heads; ++h) {
          const double magnitude = Magnitude(c, in, r, h);
          for (int d = 0; d < c.head_dim; ++d) {
            const int64_t at = r * in.width + h * c.head_dim + d;
            EXPECT_CLOSE(out[at], expected[at], magnitude, testing::kAttentionFactor);
          }
        }
      }
    }
  }
}

TEST(RangeAttentionTest, ARowHasTheSameBitsInAnyCompany) {
  for (const auto& implementation : Runnable(RangeAttentionImplementations())) {
    OpContext ctx(implementation.isa);
    for (const Case& c : Cases()) {
      const Inputs in(c);
      std::vector<float> whole(in.rows * in.width);
      implementation.function(ctx, in.q.data(), in.q_stride, in.rows, c.heads, c.head_dim, in.parts,
                              c.sets.data(), whole.data());
      for (int64_t step : {1, 3, 16, 33}) {
        SCOPED_TRACE(absl::StrCat(implementation.name, ", ", c.name, ", step ", step));
        std::vector<float> out(in.rows * in.width);
        for (int64_t r = 0; r < in.rows; r += step) {
          implementation.function(ctx, in.q.data() + r * in.q_stride, in.q_stride,
                                  std::min(step, in.rows - r), c.heads, c.head_dim, in.parts,
                                  c.sets.data() + r, out.data() + r * in.width);
        }
        EXPECT_TRUE(SameBits(out, whole));
      }
    }
  }
}

// Where an entry lies in memory must not matter, only its place in the row's own list.
TEST(RangeAttentionTest, ARowHasTheSameBitsWhereverItsEntriesLie) {
  const int heads = 2, head_dim = 64;
  const int64_t width = heads * head_dim, entries = 60;
  const std::vector<float> q = Normals(width, 1);
  const std::vector<float> keys = Normals(entries * width, 2), values = Normals(entries * width, 3);
  for (const auto& implementation : Runnable(RangeAttentionImplementations())) {
    SCOPED_TRACE(implementation.name);
    OpContext ctx(implementation.isa);
    const auto run = [&](int64_t shift) {
      std::vector<float> k(shift * width, 9.0f), v(shift * width, 9.0f);
      k.insert(k.end(), keys.begin(), keys.end());
      v.insert(v.end(), values.begin(), values.end());
      const KvSpan part{k.data(), v.data()};
      const RangeSet set = Set(shift, shift + 5, shift + 10, shift + 27, shift + 27, shift + 60);
      std::vector<float> out(width);
      implementation.function(ctx, q.data(), width, 1, heads, head_dim, {part, part, part}, &set,
                              out.data());
      return out;
    };
    const std::vector<float> expected = run(0);
    for (int64_t shift : {1, 7, 16, 21}) EXPECT_TRUE(SameBits(run(shift), expected));
  }
}

TEST(RangeAttentionTest, LargeScoresDoNotOverflow) {
  const int64_t width = 64;
  const std::vector<float> q(width, 100.0f);
  std::vector<float> keys(3 * width, 100.0f), values(3 * width, 1.0f);
  std::fill(keys.begin(), keys.begin() + width, -100.0f);
  const KvSpan part{keys.data(), values.data()};
  const RangeSet set = Set(0, 0, 0, 0, 0, 3);
  for (const auto& implementation : Runnable(RangeAttentionImplementations())) {
    OpContext ctx(implementation.isa);
    std::vector<float> out(width);
    implementation.function(ctx, q.data(), width, 1, 1, 64, {part, part, part}, &set, out.data());
    for (float v : out) EXPECT_FLOAT_EQ(v, 1.0f);
  }
}

}  // namespace
}  // namespace recollect::kernels
