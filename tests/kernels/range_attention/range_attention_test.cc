#include "kernels/range_attention/range_attention.h"

#include <algorithm>

#include "kernels/range_attention/range_attention_bf16.h"
#include "tests/kernels/cpu/served_team.h"
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

// How attention over a cache in bf16 is computed: as the instruction set chooses, or by a code of
// pairs where that can compute it.
struct Way {
  std::string name;
  Isa isa;
  PairCode code;
};

std::vector<Way> Ways() {
  std::vector<Way> ways;
  for (const Isa isa : RunnableIsas()) ways.push_back({IsaName(isa), isa, {}});
  for (const PairCode& code : PairCodes(DetectIsa())) {
    ways.push_back({absl::StrCat("by ", code.name), DetectIsa(), code});
  }
  return ways;
}

// The inputs of a case in bf16, and the same widened.
struct Bf16Inputs {
  Bf16Inputs(const Case& c, const Inputs& in) {
    for (uint32_t p = 0; p < 2 * kMaxRanges; ++p) {
      for (const float number : p % 2 == 0 ? in.keys[p / 2] : in.values[p / 2]) {
        halves[p].push_back(Bf16::FromFloat(number));
        widened[p].push_back(halves[p].back().ToFloat());
      }
    }
    for (uint32_t p = 0; p < kMaxRanges; ++p) {
      parts[p] = {halves[2 * p].data(), halves[2 * p + 1].data(), 0};
      wide[p] = {widened[2 * p].data(), widened[2 * p + 1].data()};
    }
    for (const float number : in.q) q.push_back(RoundToBf16(number));
    shape = c.shape();
  }
  std::vector<float> Attend(OpContext& ctx, const Way& way, const Inputs& in,
                            const std::vector<RangeSet>& sets, int64_t begin, int64_t end) const {
    Guarded out((end - begin) * in.width);
    const float* from = q.data() + begin * in.q_stride;
    if (way.code.attend != nullptr && PairsCanAttend(shape)) {
      RangeAttentionByPairs(ctx, way.code, shape, from, in.q_stride, end - begin, parts,
                            sets.data() + begin, out.data());
    } else {
      RangeAttentionOfBf16(ctx, shape, from, in.q_stride, end - begin, parts, sets.data() + begin,
                           out.data());
    }
    return out.values();
  }
  std::vector<float> Attend(OpContext& ctx, const Way& way, const Case& c, const Inputs& in) const {
    return Attend(ctx, way, in, c.sets, 0, in.rows);
  }

  std::vector<Bf16> halves[2 * kMaxRanges];
  std::vector<float> widened[2 * kMaxRanges];
  std::vector<float> q;
  std::array<Bf16KvSpan, kMaxRanges> parts;
  std::array<KvSpan, kMaxRanges> wide;
  RangeShape shape;
};

// The last rows of a prompt of some thousand tokens, one set for every row.
Case LongPrompt(int head_dim, int group, int64_t entries, int64_t rows) {
  std::vector<RangeSet> sets;
  for (int64_t r = 0; r < rows; ++r) sets.push_back(Set(0, 0, 0, 0, 0, entries - rows + 1 + r));
  return {"long prompt", 2 * group, head_dim, entries, sets, group};
}

std::vector<Case> Bf16Cases() {
  std::vector<Case> cases = Cases();
  cases.push_back(LongPrompt(64, 3, 2100, 7));
  cases.push_back(LongPrompt(128, 4, 1030, 5));
  cases.push_back(LongPrompt(64, 3, 200, 70));
  cases.push_back({"sliding, wide heads", 2, 128, 240, range_cases::Sliding(70)});
  return cases;
}

// bf16 has 8 bits: q and p are rounded where products are of pairs.
TEST(RangeAttentionOfBf16Test, IsThatOfTheWidenedNumbers) {
  for (const Case& c : Bf16Cases()) {
    const Inputs in(c);
    const Bf16Inputs halves(c, in);
    Guarded expected(in.rows * in.width);
    OpContext scalar(Isa::kScalar);
    RangeAttention(scalar, c.shape(), halves.q.data(), in.q_stride, in.rows, halves.wide,
                   c.sets.data(), expected.data());
    const std::vector<float> all = expected.values();
    for (const Way& way : Ways()) {
      SCOPED_TRACE(absl::StrCat(c.name, ", ", way.name));
      OpContext ctx(way.isa);
      const std::vector<float> out = halves.Attend(ctx, way, c, in);
      ASSERT_EQ(out.size(), all.size());
      double error = 0, size = 0;
      for (size_t i = 0; i < out.size(); ++i) {
        error += (out[i] - all[i]) * (out[i] - all[i]);
        size += all[i] * all[i];
        EXPECT_NEAR(out[i], all[i], 0.02) << i;
      }
      EXPECT_LE(error, 1.0 / (1 << 17) * size);
    }
  }
}

void ExpectRowsHaveTheSameBitsInAnyBatch(const Case& c, const Inputs& in,
                                         const std::vector<Way>& ways) {
  const Bf16Inputs halves(c, in);
  for (const Way& way : ways) {
    OpContext ctx(way.isa);
    const std::vector<float> whole = halves.Attend(ctx, way, c, in);
    for (const int64_t step : {1, 2, 3, 16, 33}) {
      std::vector<float> out;
      for (int64_t r = 0; r < in.rows; r += step) {
        const auto some = halves.Attend(ctx, way, in, c.sets, r, std::min(r + step, in.rows));
        out.insert(out.end(), some.begin(), some.end());
      }
      EXPECT_TRUE(SameBits(out, whole)) << c.name << ", " << way.name << ", step " << step;
    }
  }
}

TEST(RangeAttentionOfBf16Test, HeadsMayLieOneAfterTheOther) {
  for (const Case& c : Bf16Cases()) {
    const Inputs in(c);
    const Bf16Inputs together(c, in);
    Bf16Inputs apart(c, in);
    const size_t heads = static_cast<size_t>(apart.shape.kv_heads), dim = apart.shape.head_dim;
    for (size_t p = 0; p < 2 * kMaxRanges; ++p) {
      const size_t entries = together.halves[p].size() / (heads * dim);
      const size_t stride = (entries + 5) * dim;             // with room at the end
      apart.halves[p].assign(heads * stride, Bf16{0x7fc0});  // NaN
      for (size_t i = 0; i < together.halves[p].size(); ++i) {
        const size_t entry = i / (heads * dim), head = i / dim % heads;
        apart.halves[p][head * stride + entry * dim + i % dim] = together.halves[p][i];
      }
      Bf16KvSpan& part = apart.parts[p / 2];
      (p % 2 == 0 ? part.keys : part.values) = apart.halves[p].data();
      part.head_stride = static_cast<int64_t>(stride);
    }
    for (const Way& way : Ways()) {
      OpContext ctx(way.isa);
      EXPECT_TRUE(SameBits(apart.Attend(ctx, way, c, in), together.Attend(ctx, way, c, in)))
          << c.name << ", " << way.name;
    }
  }
}

TEST(RangeAttentionOfBf16Test, ARowHasTheSameBitsInAnyBatch) {
  for (const Case& c : Bf16Cases()) ExpectRowsHaveTheSameBitsInAnyBatch(c, Inputs(c), Ways());
}

// AMX takes denormal numbers for 0. What a row has summed must not meet it where only other rows
// have entries.
TEST(RangeAttentionOfBf16Test, ARowOfTinyValuesHasTheSameBitsInAnyBatch) {
  std::vector<Way> ways = Ways();
  std::erase_if(ways, [](const Way& way) { return way.code.attend == nullptr; });
  for (const Case& c : Bf16Cases()) {
    for (const float tiny : {0x1p-124f, 0x1p-127f}) {
      Inputs in(c);
      for (std::vector<float>& values : in.values) {
        for (float& value : values) value *= tiny;
      }
      ExpectRowsHaveTheSameBitsInAnyBatch(c, in, ways);
    }
  }
}

// The first entry's score is lower by 1600 than the others'.
TEST(RangeAttentionOfBf16Test, AnEntryFarBelowTheOthersHasNoWeight) {
  const Case c{"far below", 1, 64, 3, {Set(0, 0, 0, 0, 0, 3)}};
  Inputs in(c);
  std::fill(in.q.begin(), in.q.end(), 10.0f);
  std::fill(in.keys[2].begin(), in.keys[2].end(), 10.0f);
  std::fill(in.values[2].begin(), in.values[2].end(), 1.0f);
  std::fill_n(in.keys[2].begin(), in.width, -10.0f);
  std::fill_n(in.values[2].begin(), in.width, 1e6f);
  const Bf16Inputs halves(c, in);
  for (const Way& way : Ways()) {
    OpContext ctx(way.isa);
    for (const float v : halves.Attend(ctx, way, c, in)) EXPECT_FLOAT_EQ(v, 1.0f) << way.name;
  }
}

TEST(RangeAttentionOfBf16Test, ATeamComputesTheSameBits) {
  for (const Way& way : Ways()) {
    OpContext alone(way.isa);
    ServedTeam team(2, way.isa);
    for (const Case& c : Bf16Cases()) {
      const Inputs in(c);
      const Bf16Inputs halves(c, in);
      const std::vector<float> expected = halves.Attend(alone, way, c, in);
      EXPECT_TRUE(SameBits(halves.Attend(team.leader(), way, c, in), expected))
          << c.name << ", " << way.name;
    }
  }
}

// A cache that has dropped its oldest entries says how many.
TEST(RangeAttentionOfBf16Test, DroppedEntriesChangeNoBits) {
  const Case c{
      "dropped", 2, 64, 300, {Set(40, 90, 60, 200, 71, 300), Set(41, 90, 61, 200, 72, 299)}};
  const Inputs in(c);
  for (const Way& way : Ways()) {
    OpContext ctx(way.isa);
    Bf16Inputs halves(c, in);
    const std::vector<float> whole = halves.Attend(ctx, way, c, in);
    for (const int64_t dropped : {1, 17, 40}) {
      std::vector<RangeSet> sets = c.sets;
      for (RangeSet& set : sets) {
        for (RangeSet::Range& range : set.ranges)
          range = {range.begin - dropped, range.end - dropped};
      }
      Bf16Inputs later(c, in);
      for (Bf16KvSpan& part : later.parts) {
        part = {part.keys + dropped * in.kv_width, part.values + dropped * in.kv_width, dropped};
      }
      EXPECT_TRUE(SameBits(later.Attend(ctx, way, in, sets, 0, in.rows), whole)) << way.name;
    }
  }
}

// A slow fallback must not go unnoticed.
TEST(RangeAttentionOfBf16Test, UsesTheBestCodeThatTheMachineHas) {
  const std::vector<PairCode> codes = PairCodes(DetectIsa());
  std::vector<std::string> names;
  for (const PairCode& code : codes) names.emplace_back(code.name);
  OpContext ctx;
  const RangeShape shape{2, 2, 64};
  if (codes.empty()) {
    EXPECT_EQ(PairCodeOf(ctx, shape), nullptr);
    return;
  }
  std::vector<std::string> expected = {"avx512_bf16"};
  if (names.size() > 1) expected.insert(expected.begin(), "amx");
  EXPECT_EQ(names, expected);
  ASSERT_NE(PairCodeOf(ctx, shape), nullptr);
  EXPECT_EQ(PairCodeOf(ctx, shape)->attend, codes.front().attend);
  EXPECT_EQ(PairCodeOf(ctx, {2, 2, 32}), nullptr);
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
