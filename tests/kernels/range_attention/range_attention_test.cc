#include "kernels/range_attention/range_attention.h"

#include <algorithm>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/op_test.h"
#include "tests/kernels/range_attention/range_attention_cases.h"

namespace recollect::kernels {
namespace {

using range_cases::Call;
using range_cases::CallOf;
using range_cases::Case;
using range_cases::Cases;
using range_cases::Inputs;
using range_cases::Set;

class RangeAttentionTest : public OpTest<Call> {};
class RangeAttentionDeviceTest : public RangeAttentionTest {};

TEST_P(RangeAttentionTest, MatchesReference) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const Inputs in(c);
    range_cases::ExpectMatchesReference(c, in, RunInAllWays(CallOf(c, in)));
  }
}

// Rows cut into calls, with room for longer rows beside them, and each row with a cache of its own.
TEST_P(RangeAttentionTest, ARowHasTheSameBitsInAnyBatch) {
  for (const Case& c : Cases()) {
    const Inputs in(c);
    const std::vector<float> whole = Run(CallOf(c, in));
    for (int64_t step : {1, 3, 16, 33}) {
      SCOPED_TRACE(absl::StrCat(c.name, ", step ", step));
      std::vector<float> out;
      for (int64_t r = 0; r < in.rows; r += step) {
        Call some = CallOf(c, in, r, std::min(r + step, in.rows));
        some.spare = 700;
        const std::vector<float> of_some = Run(some);
        out.insert(out.end(), of_some.begin(), of_some.end());
      }
      EXPECT_TRUE(SameBits(out, whole));
    }
    Call own = CallOf(c, in);
    own.parts_per_row = kMaxRanges;
    own.parts.clear();
    for (int64_t r = 0; r < in.rows; ++r) {
      own.parts.insert(own.parts.end(), in.parts.begin(), in.parts.end());
    }
    EXPECT_TRUE(SameBits(Run(own), whole)) << c.name << ", a cache for each row";
  }
}

// Where an entry lies in memory must not matter, only its place in the row's own list.
TEST_P(RangeAttentionTest, ARowHasTheSameBitsWhereverItsEntriesLie) {
  const int heads = 2, head_dim = 64;
  const int64_t width = heads * head_dim, entries = 60;
  const std::vector<float> q = Normals(width, 1);
  const std::vector<float> keys = Normals(entries * width, 2), values = Normals(entries * width, 3);
  const auto run = [&](int64_t shift) {
    std::vector<float> k(shift * width, 9.0f), v(shift * width, 9.0f);
    k.insert(k.end(), keys.begin(), keys.end());
    v.insert(v.end(), values.begin(), values.end());
    return Run({.heads = heads,
                .kv_heads = heads,
                .head_dim = head_dim,
                .q = q,
                .q_stride = width,
                .parts = std::vector<KvSpan>(kMaxRanges, {k.data(), v.data()}),
                .sets = {Set(shift, shift + 5, shift + 10, shift + 27, shift + 27, shift + 60)},
                .part_floats = static_cast<int64_t>(k.size())});
  };
  const std::vector<float> expected = run(0);
  for (int64_t shift : {1, 7, 16, 21}) EXPECT_TRUE(SameBits(run(shift), expected));
}

TEST(RangeAttentionOfBf16Test, HasTheBitsOfTheWidenedNumbers) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (const Case& c : Cases()) {
      const Inputs in(c);
      std::vector<Bf16> halves[2 * kMaxRanges];
      std::vector<float> widened[2 * kMaxRanges];
      std::array<Bf16KvSpan, kMaxRanges> parts;
      std::array<KvSpan, kMaxRanges> wide;
      for (size_t p = 0; p < 2 * kMaxRanges; ++p) {
        for (const float number : p % 2 == 0 ? in.keys[p / 2] : in.values[p / 2]) {
          halves[p].push_back(Bf16::FromFloat(number));
          widened[p].push_back(halves[p].back().ToFloat());
        }
      }
      for (size_t p = 0; p < kMaxRanges; ++p) {
        parts[p] = {halves[2 * p].data(), halves[2 * p + 1].data()};
        wide[p] = {widened[2 * p].data(), widened[2 * p + 1].data()};
      }
      Guarded out(in.rows * in.width), expected(in.rows * in.width);
      RangeAttentionOfBf16(ctx, c.shape(), in.q.data(), in.q_stride, in.rows, parts, c.sets.data(),
                           out.data());
      RangeAttention(ctx, c.shape(), in.q.data(), in.q_stride, in.rows, wide, c.sets.data(),
                     expected.data());
      EXPECT_TRUE(SameBits(out.values(), expected.values())) << c.name << ", " << IsaName(isa);
    }
  }
}

// A row of one head with all entries of one cache.
Call OneRow(const std::vector<float>& q, const std::vector<float>& keys,
            const std::vector<float>& values, const RangeSet& set) {
  return {.heads = 1,
          .kv_heads = 1,
          .head_dim = static_cast<int>(q.size()),
          .q = q,
          .q_stride = static_cast<int64_t>(q.size()),
          .parts = std::vector<KvSpan>(kMaxRanges, {keys.data(), values.data()}),
          .sets = {set},
          .part_floats = static_cast<int64_t>(keys.size())};
}

TEST_P(RangeAttentionTest, LargeScoresDoNotOverflow) {
  const int64_t width = 64;
  const std::vector<float> q(width, 100.0f), values(3 * width, 1.0f);
  std::vector<float> keys(3 * width, 100.0f);
  std::fill(keys.begin(), keys.begin() + width, -100.0f);
  for (float v : RunInAllWays(OneRow(q, keys, values, Set(0, 0, 0, 0, 0, 3)))) {
    EXPECT_FLOAT_EQ(v, 1.0f);
  }
}

// Equal keys: what is left is the bias, so that weights fall by the same factor from entry to
// entry, back from the last of all ranges.
TEST_P(RangeAttentionTest, AlibiCountsBackFromTheRowsLastEntry) {
  const std::vector<float> q(4, 1.0f), keys(12, 1.0f);
  std::vector<float> values(12);
  values[0] = values[5] = values[10] = 1;  // of the first three channels
  Call call = OneRow(q, keys, values, Set(0, 1, 1, 1, 1, 3));
  call.slopes = {0.6931472f};  // ln 2
  const std::vector<float> out = RunInAllWays(call);
  EXPECT_NEAR(out[0], 1 / 7.0, 1e-6);
  EXPECT_NEAR(out[1], 2 / 7.0, 1e-6);
  EXPECT_NEAR(out[2], 4 / 7.0, 1e-6);
}

TEST_P(RangeAttentionDeviceTest, ListsHaveTheBitsOfRanges) {
  range_cases::CheckListsHaveTheBitsOfRanges([&](const Call& call) { return RunInAllWays(call); });
}

#ifdef RECOLLECT_TEST_ON_CUDA
TEST_P(RangeAttentionDeviceTest, HasTheBitsOfTheHost) {
  HostDevice host;
  for (const Case& c : Cases()) {
    const Inputs in(c);
    const Call call = CallOf(c, in);
    EXPECT_TRUE(SameBits(RunInAllWays(call), range_cases::RunOnDevice(host, call, 0))) << c.name;
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Runners, RangeAttentionTest, ::testing::ValuesIn(Runners()), NameOfRunner);
INSTANTIATE_TEST_SUITE_P(Runners, RangeAttentionDeviceTest, ::testing::Values(Runner()),
                         NameOfRunner);

}  // namespace
}  // namespace recollect::kernels
