// The shapes that range attention is tested on, with their inputs and tolerances, and calls of it
// on the CPU and on a device.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/range_attention/range_attention.h"
#include "kernels/range_attention/range_attention_plan.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

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

// The ranges of a slice of a prompt: a window of 129 that slides by one, a dilated part that slides
// at every 16th row, and two initial entries.
inline std::vector<RangeSet> Sliding(int64_t rows, int64_t first = 0) {
  std::vector<RangeSet> sets;
  for (int64_t r = first; r < first + rows; ++r) {
    sets.push_back(Set(0, 2, r / 16, r / 16 + 56, r, r + 129));
  }
  return sets;
}

// Cases in which every query head has a key-value head of its own.
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
  std::vector<RangeSet> three;
  for (int64_t r = 0; r < 5; ++r) three.push_back(Set(0, r, r, 3 * r, r, 40));
  return {{"grouped, two of each", 4, 64, 37, causal, 2},
          {"grouped, narrow heads", 6, 10, 37, causal, 3},
          {"grouped, one for all", 3, 16, 240, Sliding(20), 3},
          {"grouped, empty", 4, 8, 4, {Set(0, 0, 0, 0, 0, 0)}, 2},
          {"grouped, odd width, three parts", 4, 11, 40, three, 2}};
}

// Cases with ALiBi; one of the slopes leaves nothing of the entries far back.
inline std::vector<Case> AlibiCases() {
  std::vector<Case> cases = {PlainCases()[4], PlainCases()[9], GroupedCases()[0], GroupedCases()[3],
                             GroupedCases()[4]};
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

// Compares `out` [rows, heads, head_dim] with the scalar double reference.
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

// A call of the operation: one cache for all rows, or one for each.
struct Call {
  static constexpr int kWays = 4;  // of RunOnDevice
  int heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<float> slopes = {};
  std::vector<float> q = {};
  int64_t q_stride = 0;
  std::vector<KvSpan> parts = {};
  int64_t parts_per_row = 0;
  std::vector<RangeSet> sets = {};
  int64_t part_floats = 0;  // keys of one part
  int64_t spare = 0;        // entries for which a plan has room beyond those of the longest row
  // Lists in place of sets, on devices alone: [rows, heads, room] and [rows, heads].
  std::vector<int32_t> entries = {}, counts = {};
  int64_t room = 0;

  int64_t rows() const { return static_cast<int64_t>(q.size()) / q_stride; }
  int64_t out_floats() const { return rows() * heads * head_dim; }
};

// Rows [begin, end) of a case.
inline Call CallOf(const Case& c, const Inputs& in, int64_t begin, int64_t end) {
  return {.heads = c.heads,
          .kv_heads = c.kv_heads(),
          .head_dim = c.head_dim,
          .slopes = c.slopes,
          .q = {in.q.begin() + begin * in.q_stride, in.q.begin() + end * in.q_stride},
          .q_stride = in.q_stride,
          .parts = {in.parts.begin(), in.parts.end()},
          .sets = {c.sets.begin() + begin, c.sets.begin() + end},
          .part_floats = c.entries * in.kv_width};
}
inline Call CallOf(const Case& c, const Inputs& in) { return CallOf(c, in, 0, in.rows); }

// Runs a call on the CPU, rows that share a cache together. A run returns out [rows, heads,
// head_dim], NaN where nothing was written.
inline std::vector<float> RunOnCpu(OpContext& ctx, const Call& call) {
  const RangeShape shape{call.heads, call.kv_heads, call.head_dim,
                         call.slopes.empty() ? nullptr : call.slopes.data()};
  Guarded out(call.out_floats());
  // Rows that share a cache run together.
  const int64_t rows = call.rows(), step = call.parts_per_row == 0 ? rows : 1;
  for (int64_t r = 0; r < rows; r += step) {
    std::array<KvSpan, kMaxRanges> parts;
    std::copy_n(call.parts.begin() + r * call.parts_per_row, kMaxRanges, parts.begin());
    RangeAttention(ctx, shape, call.q.data() + r * call.q_stride, call.q_stride, step, parts,
                   call.sets.data() + r, out.data() + r * call.heads * call.head_dim);
  }
  return out.values();
}

// Runs a call on a device. `way` chooses the strategy, and whether q, out and the caches are at
// aligned addresses or an element past them.
inline std::vector<float> RunOnDevice(Device& device, const Call& call, int way) {
  using Strategy = RangeAttentionPlan::Strategy;
  const size_t shift = way / 2;
  RangeAttentionSizes sizes{.rows = call.rows(),
                            .heads = call.heads,
                            .kv_heads = call.kv_heads,
                            .head_dim = call.head_dim,
                            .max_entries = call.room};
  for (const RangeSet& set : call.sets) {
    sizes.max_entries = std::max(sizes.max_entries, EntriesOf(set) + call.spare);
  }
  const auto plan = PlanRangeAttention(sizes, way % 2 == 0 ? Strategy::kBySplit : Strategy::kByRow);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(CheckRanges(*plan, call.sets), absl::OkStatus());
  device_cases::Arrays arrays(device);
  std::vector<KvSpan> parts;
  for (const KvSpan& part : call.parts) {
    const auto place = [&](const float* from) -> const float* {
      if (from == nullptr) return nullptr;
      return arrays.Place(std::vector<float>(from, from + call.part_floats), shift);
    };
    const float* const keys = place(part.keys);
    parts.push_back({keys, place(part.values)});
  }
  const std::vector<float> nothing(call.out_floats(), std::nanf(""));
  RangeAttentionOp op;
  op.plan = *plan;
  op.q = arrays.Place(call.q, shift);
  op.q_stride = call.q_stride;
  op.parts = arrays.Place(parts);
  op.parts_per_row = call.parts_per_row;
  op.sets = arrays.Place(call.sets);
  if (!call.counts.empty()) op.lists = {arrays.Place(call.entries), arrays.Place(call.counts)};
  op.slopes = call.slopes.empty() ? nullptr : arrays.Place(call.slopes);
  op.workspace = arrays.Allocate(plan->workspace_bytes);
  op.out = arrays.Place(nothing, shift);
  EXPECT_EQ(device.Run(op), absl::OkStatus());
  return arrays.Read(op.out, call.out_floats());
}

// Checks lists of scattered entries in one cache, different for each row and head: they have the
// bits of a range over copies of the entries, and match the reference. run(call) returns the call's
// out.
template <typename Runner>
void CheckListsHaveTheBitsOfRanges(const Runner& run) {
  const int heads = 3, dim = 24;
  const int64_t cache = 900, stride = int64_t{heads} * dim;
  const std::vector<float> keys = Normals(cache * stride, 1), values = Normals(cache * stride, 2);
  const std::vector<int32_t> lengths = {0, 1, 255, 256, 257, 600, 2, 513, 70, 3, 0, 1};
  const auto rows = static_cast<int64_t>(lengths.size()) / heads;
  Call call{.heads = heads, .kv_heads = heads, .head_dim = dim};
  call.q = Normals(rows * stride, 3);
  call.q_stride = stride;
  call.parts.resize(kMaxRanges, {keys.data(), values.data()});
  call.slopes = {0.01f, 0.0f, 0.2f};
  call.part_floats = cache * stride;
  call.counts = lengths;
  const int64_t room = 650;
  call.room = room;
  call.entries.resize(lengths.size() * room, -1);
  for (size_t p = 0; p < lengths.size(); ++p) {
    for (int32_t i = 0; i < lengths[p]; ++i) {
      call.entries[p * room + i] =
          static_cast<int32_t>((i * 7 + static_cast<int64_t>(p) * 31) % cache);
    }
  }
  std::vector<float> expected;
  for (size_t p = 0; p < lengths.size(); ++p) {
    const size_t head = p % heads;
    const Case c{.name = "one list",
                 .heads = 1,
                 .head_dim = dim,
                 .entries = lengths[p],
                 .sets = {Set(0, lengths[p], 0, 0, 0, 0)},
                 .slopes = {call.slopes[head]}};
    Inputs in(c);
    in.q.assign(call.q.begin() + p * dim, call.q.begin() + (p + 1) * dim);
    in.q_stride = dim;
    for (int32_t i = 0; i < lengths[p]; ++i) {
      const int64_t from = call.entries[p * room + i] * stride + static_cast<int64_t>(head) * dim;
      std::copy_n(keys.begin() + from, dim, in.keys[0].begin() + i * dim);
      std::copy_n(values.begin() + from, dim, in.values[0].begin() + i * dim);
    }
    const std::vector<float> out = run(CallOf(c, in));
    ExpectMatchesReference(c, in, out);
    expected.insert(expected.end(), out.begin(), out.end());
  }
  EXPECT_TRUE(SameBits(run(call), expected));
}

}  // namespace recollect::kernels::range_cases
