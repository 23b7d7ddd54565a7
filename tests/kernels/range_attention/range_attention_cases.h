// The shapes that every implementation of range attention is tested on, with their inputs and
// tolerances.
#ifndef RECOLLECT_TESTS_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_CASES_H_
#define RECOLLECT_TESTS_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_CASES_H_

#include <algorithm>
#include <vector>

#include "kernels/range_attention/range_attention.h"
#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels::range_cases {

struct Case {
  const char* name;
  int heads, head_dim;
  int64_t entries;
  std::vector<RangeSet> sets;
  int group = 1;                   // query heads that share a key-value head
  std::vector<float> slopes = {};  // of ALiBi, by head

  int kv_heads() const { return heads / group; }
  RangeShape shape() const {
    return {heads, kv_heads(), head_dim, slopes.empty() ? nullptr : slopes.data()};
  }
};

inline RangeSet Set(int64_t a0, int64_t a1, int64_t b0, int64_t b1, int64_t c0, int64_t c1) {
  RangeSet set;
  set.ranges[0] = {a0, a1};
  set.ranges[1] = {b0, b1};
  set.ranges[2] = {c0, c1};
  return set;
}

// What a slice of a prompt asks for: a window of 129 that slides by one, a dilated part that slides
// at every 16th row, and two initial entries.
inline std::vector<RangeSet> Sliding(int64_t rows, int64_t first = 0) {
  std::vector<RangeSet> sets;
  for (int64_t r = first; r < first + rows; ++r) {
    sets.push_back(Set(0, 2, r / 16, r / 16 + 56, r, r + 129));
  }
  return sets;
}

// Every query head has a key-value head of its own.
inline std::vector<Case> PlainCases() {
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
      // Lists of several hundred entries: one less, one more than 256 and 512, and ranges of two
      // parts on either side of such a number.
      {"long",
       2,
       16,
       700,
       {Set(0, 0, 0, 0, 0, 255), Set(0, 0, 0, 0, 1, 257), Set(0, 2, 3, 257, 40, 41),
        Set(5, 7, 100, 400, 400, 611), Set(0, 200, 300, 300, 10, 700), Set(0, 0, 650, 651, 0, 0)}},
      {"far apart", 2, 64, 240, {Set(0, 3, 0, 5, 0, 2), Set(200, 203, 100, 105, 230, 240)}},
  };
}

inline std::vector<Case> GroupedCases() {
  std::vector<RangeSet> causal;
  for (int64_t r = 0; r < 37; ++r) causal.push_back(Set(0, 0, 0, 0, 0, r + 1));
  return {{"grouped, two of each", 4, 64, 37, causal, 2},
          {"grouped, narrow heads", 6, 10, 37, causal, 3},
          {"grouped, one for all", 3, 16, 240, Sliding(20), 3},
          {"grouped, empty", 4, 8, 4, {Set(0, 0, 0, 0, 0, 0)}, 2}};
}

// With ALiBi; one of the slopes leaves nothing of the entries far back.
inline std::vector<Case> AlibiCases() {
  std::vector<Case> cases = {PlainCases()[4], PlainCases()[9], GroupedCases()[0],
                             GroupedCases()[3]};
  for (Case& c : cases) c.slopes = {0.0625f, 0.7f, 0.004f, 30.0f};
  return cases;
}

inline std::vector<Case> Cases() {
  std::vector<Case> cases = PlainCases();
  for (const auto& more : {GroupedCases(), AlibiCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

struct Inputs {
  explicit Inputs(const Case& c)
      : width(static_cast<int64_t>(c.heads) * c.head_dim),
        kv_width(static_cast<int64_t>(c.kv_heads()) * c.head_dim),
        rows(static_cast<int64_t>(c.sets.size())),
        q_stride(width + 7),
        q(Normals(rows * q_stride, 1)) {
    for (uint32_t p = 0; p < kMaxRanges; ++p) {
      keys[p] = Normals(c.entries * kv_width, 10 + p);
      values[p] = Normals(c.entries * kv_width, 20 + p);
      parts[p] = {keys[p].data(), values[p].data()};
    }
  }
  int64_t width, kv_width, rows, q_stride;
  std::vector<float> q;
  std::vector<float> keys[kMaxRanges], values[kMaxRanges];
  std::array<KvSpan, kMaxRanges> parts;
};

inline double Magnitude(const Case& c, const Inputs& in, int64_t row, int head) {
  double largest_value = 0, largest_score = 0, entries = 0;
  for (int p = 0; p < kMaxRanges; ++p) {
    for (int64_t e = c.sets[row].ranges[p].begin; e < c.sets[row].ranges[p].end; ++e) {
      double score = 0;
      for (int d = 0; d < c.head_dim; ++d) {
        const int64_t at = e * in.kv_width + head / c.group * c.head_dim + d;
        largest_value = std::max<double>(largest_value, std::abs(in.values[p][at]));
        score += std::abs(in.q[row * in.q_stride + head * c.head_dim + d] * in.keys[p][at]);
      }
      largest_score = std::max(largest_score, score / std::sqrt(c.head_dim));
      ++entries;
    }
  }
  if (!c.slopes.empty()) largest_score += c.slopes[head] * entries;
  return largest_value * (1 + largest_score);
}

// `out` [rows, heads, head_dim] against the scalar double reference.
inline void ExpectMatchesReference(const Case& c, const Inputs& in, std::span<const float> out) {
  std::vector<float> expected(in.rows * in.width);
  ASSERT_EQ(out.size(), expected.size());
  RangeAttention(Scalar(), c.shape(), in.q.data(), in.q_stride, in.rows, in.parts, c.sets.data(),
                 expected.data());
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

}  // namespace recollect::kernels::range_cases

#endif  // RECOLLECT_TESTS_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_CASES_H_
