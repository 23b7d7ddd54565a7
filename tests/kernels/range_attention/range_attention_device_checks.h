// What any device run of range attention must do, checked on the host run of the kernels' blocks
// and on a GPU alike: a runner is called as run(plan, call) and returns out [rows, heads,
// head_dim], NaN where nothing was written.
#ifndef RECOLLECT_TESTS_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_DEVICE_CHECKS_H_

#include "tests/kernels/device/host_launches.h"
#include "tests/kernels/range_attention/range_attention_cases.h"

namespace recollect::kernels::range_cases {

// A call of the operation: one cache for all rows, or one for each.
struct Call {
  std::vector<float> q;
  int64_t q_stride = 0;
  std::vector<KvSpan> parts;
  int64_t parts_per_row = 0;
  std::vector<RangeSet> sets;
  std::vector<float> slopes;
  int64_t part_floats = 0;  // keys of one part, for whoever copies them
  // Lists in place of sets, [rows, heads, max_entries] and [rows, heads].
  std::vector<int32_t> entries = {}, counts = {};
};

// Rows [begin, end) of a case.
inline Call CallOf(const Case& c, const Inputs& in, int64_t begin, int64_t end) {
  Call call;
  call.q.assign(in.q.begin() + begin * in.q_stride, in.q.begin() + end * in.q_stride);
  call.q_stride = in.q_stride;
  call.parts.assign(in.parts.begin(), in.parts.end());
  call.sets.assign(c.sets.begin() + begin, c.sets.begin() + end);
  call.slopes = c.slopes;
  call.part_floats = c.entries * in.kv_width;
  return call;
}

// The plan's thread blocks, on the host.
inline std::vector<float> RunOnHost(const RangeAttentionPlan& plan, const Call& call,
                                    HostOrder order) {
  const RangeAttentionSizes& sizes = plan.sizes;
  std::vector<float> out(sizes.rows * sizes.heads * sizes.head_dim, std::nanf(""));
  std::vector<float> workspace(plan.workspace_bytes / sizeof(float), std::nanf(""));
  RangeAttentionOp op;
  op.plan = plan;
  op.q = call.q.data();
  op.q_stride = call.q_stride;
  op.parts = call.parts.data();
  op.parts_per_row = call.parts_per_row;
  op.sets = call.sets.data();
  if (!call.counts.empty()) op.lists = {call.entries.data(), call.counts.data()};
  op.slopes = call.slopes.empty() ? nullptr : call.slopes.data();
  op.workspace = workspace.data();
  op.out = out.data();
  EXPECT_EQ(OnHost(order, op), absl::OkStatus());
  return out;
}

// With room for `spare` entries more than any row has.
template <typename Runner>
std::vector<float> Run(const Runner& run, const Case& c, const Call& call,
                       RangeAttentionPlan::Strategy strategy, int64_t spare = 0) {
  RangeAttentionSizes sizes{.rows = static_cast<int64_t>(call.sets.size()),
                            .heads = c.heads,
                            .kv_heads = c.kv_heads(),
                            .head_dim = c.head_dim};
  for (const RangeSet& set : call.sets) {
    sizes.max_entries = std::max(sizes.max_entries, EntriesOf(set) + spare);
  }
  const absl::StatusOr<RangeAttentionPlan> plan = PlanRangeAttention(sizes, strategy);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(CheckRanges(*plan, call.sets), absl::OkStatus());
  return run(*plan, call);
}

inline constexpr RangeAttentionPlan::Strategy kStrategies[] = {
    RangeAttentionPlan::Strategy::kBySplit, RangeAttentionPlan::Strategy::kByRow};

inline const char* NameOf(RangeAttentionPlan::Strategy strategy) {
  return strategy == RangeAttentionPlan::Strategy::kBySplit ? "by split" : "by row";
}

template <typename Runner>
void CheckMatchesReference(const Runner& run) {
  for (const Case& c : Cases()) {
    const Inputs in(c);
    const Call call = CallOf(c, in, 0, in.rows);
    std::vector<float> other;
    for (RangeAttentionPlan::Strategy strategy : kStrategies) {
      SCOPED_TRACE(absl::StrCat(NameOf(strategy), ", ", c.name));
      const std::vector<float> out = Run(run, c, call, strategy);
      ExpectMatchesReference(c, in, out);
      if (!other.empty()) {
        EXPECT_TRUE(SameBits(out, other)) << "than the other way";
      }
      other = out;
    }
  }
}

// Rows cut into calls, with room for longer rows beside them, and each row with a cache of its own.
template <typename Runner>
void CheckARowHasTheSameBitsInAnyBatch(const Runner& run) {
  for (const Case& c : Cases()) {
    const Inputs in(c);
    const std::vector<float> whole =
        Run(run, c, CallOf(c, in, 0, in.rows), RangeAttentionPlan::Strategy::kByRow);
    for (int64_t step : {1, 33}) {
      SCOPED_TRACE(absl::StrCat(c.name, ", step ", step));
      std::vector<float> out;
      for (int64_t r = 0; r < in.rows; r += step) {
        const std::vector<float> some = Run(run, c, CallOf(c, in, r, std::min(r + step, in.rows)),
                                            step == 1 ? RangeAttentionPlan::Strategy::kBySplit
                                                      : RangeAttentionPlan::Strategy::kByRow,
                                            700);
        out.insert(out.end(), some.begin(), some.end());
      }
      EXPECT_TRUE(SameBits(out, whole));
    }
    SCOPED_TRACE(absl::StrCat(c.name, ", a cache for each row"));
    Call own = CallOf(c, in, 0, in.rows);
    own.parts_per_row = kMaxRanges;
    own.parts.clear();
    for (int64_t r = 0; r < in.rows; ++r) {
      own.parts.insert(own.parts.end(), in.parts.begin(), in.parts.end());
    }
    EXPECT_TRUE(SameBits(Run(run, c, own, RangeAttentionPlan::Strategy::kBySplit), whole));
  }
}

// Entries here and there in one cache, other ones for each row and head: as a range over copies of
// them, and like the reference.
template <typename Runner>
void CheckListsHaveTheBitsOfRanges(const Runner& run) {
  const int heads = 3, dim = 24;
  const int64_t cache = 900, stride = int64_t{heads} * dim;
  const std::vector<float> keys = Normals(cache * stride, 1), values = Normals(cache * stride, 2);
  const std::vector<int32_t> lengths = {0, 1, 255, 256, 257, 600, 2, 513, 70, 3, 0, 1};
  const auto rows = static_cast<int64_t>(lengths.size()) / heads;
  Call call;
  call.q = Normals(rows * stride, 3);
  call.q_stride = stride;
  call.parts.resize(kMaxRanges, {keys.data(), values.data()});
  call.slopes = {0.01f, 0.0f, 0.2f};
  call.part_floats = cache * stride;
  call.counts = lengths;
  const int64_t room = 650;
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
    const std::vector<float> out =
        Run(run, c, CallOf(c, in, 0, 1), RangeAttentionPlan::Strategy::kBySplit);
    ExpectMatchesReference(c, in, out);
    expected.insert(expected.end(), out.begin(), out.end());
  }
  for (RangeAttentionPlan::Strategy strategy : kStrategies) {
    const auto plan = PlanRangeAttention(
        {.rows = rows, .heads = heads, .kv_heads = heads, .head_dim = dim, .max_entries = room},
        strategy);
    EXPECT_TRUE(SameBits(run(*plan, call), expected)) << NameOf(strategy);
  }
}

}  // namespace recollect::kernels::range_cases

#endif  // RECOLLECT_TESTS_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_DEVICE_CHECKS_H_
