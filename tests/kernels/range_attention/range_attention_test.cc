#include "kernels/range_attention/range_attention.h"

#include <algorithm>

#include "tests/kernels/range_attention/range_attention_cases.h"

namespace recollect::kernels {
namespace {

using range_cases::Case;
using range_cases::Cases;
using range_cases::Inputs;
using range_cases::Set;

TEST(RangeAttentionTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (const Case& c : Cases()) {
      SCOPED_TRACE(absl::StrCat(IsaName(isa), ", ", c.name));
      const Inputs in(c);
      Guarded out(in.rows * in.width);
      RangeAttention(ctx, c.shape(), in.q.data(), in.q_stride, in.rows, in.parts, c.sets.data(),
                     out.data());
      range_cases::ExpectMatchesReference(c, in, out.values());
    }
  }
}

TEST(RangeAttentionTest, ARowHasTheSameBitsInAnyBatch) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (const Case& c : Cases()) {
      const Inputs in(c);
      std::vector<float> whole(in.rows * in.width);
      RangeAttention(ctx, c.shape(), in.q.data(), in.q_stride, in.rows, in.parts, c.sets.data(),
                     whole.data());
      for (int64_t step : {1, 3, 16, 33}) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), ", ", c.name, ", step ", step));
        std::vector<float> out(in.rows * in.width);
        for (int64_t r = 0; r < in.rows; r += step) {
          RangeAttention(ctx, c.shape(), in.q.data() + r * in.q_stride, in.q_stride,
                         std::min(step, in.rows - r), in.parts, c.sets.data() + r,
                         out.data() + r * in.width);
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
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(IsaName(isa));
    OpContext ctx(isa);
    const auto run = [&](int64_t shift) {
      std::vector<float> k(shift * width, 9.0f), v(shift * width, 9.0f);
      k.insert(k.end(), keys.begin(), keys.end());
      v.insert(v.end(), values.begin(), values.end());
      const KvSpan part{k.data(), v.data()};
      const RangeSet set = Set(shift, shift + 5, shift + 10, shift + 27, shift + 27, shift + 60);
      std::vector<float> out(width);
      RangeAttention(ctx, {heads, heads, head_dim}, q.data(), width, 1, {part, part, part}, &set,
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
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    std::vector<float> out(width);
    RangeAttention(ctx, {1, 1, 64}, q.data(), width, 1, {part, part, part}, &set, out.data());
    for (float v : out) EXPECT_FLOAT_EQ(v, 1.0f);
  }
}

// Equal keys: what is left is the bias, so that weights fall by the same factor from entry to
// entry, back from the last of all ranges.
TEST(RangeAttentionTest, AlibiCountsBackFromTheRowsLastEntry) {
  const std::vector<float> q(4, 1.0f), keys(12, 1.0f);
  std::vector<float> values(12);
  values[0] = values[5] = values[10] = 1;  // of the first three channels
  const KvSpan part{keys.data(), values.data()};
  const RangeSet set = Set(0, 1, 1, 1, 1, 3);
  const float slope = 0.6931472f;  // ln 2
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    std::vector<float> out(4);
    RangeAttention(ctx, {1, 1, 4, &slope}, q.data(), 4, 1, {part, part, part}, &set, out.data());
    EXPECT_NEAR(out[0], 1 / 7.0, 1e-6);
    EXPECT_NEAR(out[1], 2 / 7.0, 1e-6);
    EXPECT_NEAR(out[2], 4 / 7.0, 1e-6);
  }
}

}  // namespace
}  // namespace recollect::kernels
