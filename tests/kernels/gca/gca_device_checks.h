// What any device run of Grouped Cross-Attention must do, checked on the host run of the kernels'
// blocks and on a GPU alike: a runner is called as run(plan, q, groups, chunks, weights) and
// returns out [plan.sizes.rows, heads, head_dim], NaN where nothing was written; q as floats that
// plan.q_dtype has.
#ifndef RECOLLECT_TESTS_KERNELS_GCA_GCA_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_GCA_GCA_DEVICE_CHECKS_H_

#include "tests/kernels/device/host_launches.h"
#include "tests/kernels/gca/gca_cases.h"

namespace recollect::kernels::gca_cases {

// A call of the operation: groups of rows with their chunks.
struct Batch {
  DType q_dtype = DType::kFloat32;
  std::vector<float> q;
  std::vector<GcaGroup> groups;
  std::vector<MemoryView> chunks;
  std::vector<float> weights;
};

inline GcaSizes SizesOf(const Batch& batch) {
  GcaSizes sizes{.groups = static_cast<int64_t>(batch.groups.size())};
  for (const GcaGroup& group : batch.groups) {
    sizes.rows = std::max(sizes.rows, group.first_row + group.rows);
    sizes.max_group_rows = std::max(sizes.max_group_rows, group.rows);
    sizes.max_group_chunks = std::max(sizes.max_group_chunks, group.chunks);
  }
  return sizes;
}

// Appends rows [begin, end) of a case as one group.
inline void AddGroup(const Inputs& in, int64_t begin, int64_t end, Batch* batch) {
  if (begin == end) return;
  GcaGroup group;
  group.first_row = static_cast<int64_t>(batch->q.size()) / in.width;
  group.first_chunk = static_cast<int64_t>(batch->chunks.size());
  group.rows = static_cast<int32_t>(end - begin);
  group.chunks = static_cast<int32_t>(in.chunks.size());
  batch->groups.push_back(group);
  batch->q_dtype = in.q_dtype;
  batch->q.insert(batch->q.end(), in.q.begin() + begin * in.width, in.q.begin() + end * in.width);
  batch->chunks.insert(batch->chunks.end(), in.chunks.begin(), in.chunks.end());
  batch->weights.insert(batch->weights.end(), in.weights.begin(), in.weights.end());
}

inline std::vector<Bf16> ToBf16(const std::vector<float>& numbers) {
  std::vector<Bf16> narrow;
  for (const float number : numbers) narrow.push_back(Bf16::FromFloat(number));
  return narrow;
}

// The plan's thread blocks, on the host.
inline std::vector<float> RunOnHost(const GcaPlan& plan, const std::vector<float>& q,
                                    const std::vector<GcaGroup>& groups,
                                    const std::vector<MemoryView>& chunks,
                                    const std::vector<float>& weights, HostOrder order) {
  const GcaShape& shape = plan.shape;
  std::vector<float> out(plan.sizes.rows * shape.heads * shape.head_dim, std::nanf(""));
  std::vector<float> workspace(plan.workspace_bytes / sizeof(float), std::nanf(""));
  const std::vector<Bf16> narrow_q = ToBf16(q);
  GcaOp op;
  op.plan = plan;
  op.q = plan.q_dtype == DType::kBf16 ? static_cast<const void*>(narrow_q.data()) : q.data();
  op.groups = groups.data();
  op.group_count = static_cast<int64_t>(groups.size());
  op.chunks = chunks.data();
  op.weights = weights.data();
  op.workspace = workspace.data();
  op.out = out.data();
  EXPECT_EQ(OnHost(order, op), absl::OkStatus());
  return out;
}

template <typename Runner>
std::vector<float> Run(const Runner& run, const GcaShape& shape, const Batch& batch,
                       GcaPlan::Strategy strategy) {
  const absl::StatusOr<GcaPlan> plan = PlanGca(shape, SizesOf(batch), batch.q_dtype, strategy);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(CheckGca(*plan, batch.groups, batch.chunks), absl::OkStatus());
  return run(*plan, batch.q, batch.groups, batch.chunks, batch.weights);
}

inline constexpr GcaPlan::Strategy kStrategies[] = {GcaPlan::Strategy::kByChunk,
                                                    GcaPlan::Strategy::kByGroup};
inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kBf16};

inline std::string NameOf(GcaPlan::Strategy strategy, DType q_dtype) {
  return absl::StrCat(strategy == GcaPlan::Strategy::kByChunk ? "by chunk" : "by group",
                      q_dtype == DType::kBf16 ? ", bf16" : ", fp32");
}

template <typename Runner>
void CheckMatchesReference(const Runner& run) {
  for (const Case& c : Cases()) {
    for (float deviation : {0.1f, 1.0f, 5.0f}) {
      for (DType q_dtype : kDTypes) {
        const Inputs in(c, deviation, q_dtype);
        Batch batch;
        AddGroup(in, 0, c.rows, &batch);
        std::vector<float> other;
        for (GcaPlan::Strategy strategy : kStrategies) {
          SCOPED_TRACE(absl::StrCat(NameOf(strategy, q_dtype), ", ", c.rows, " rows, ",
                                    c.chunk_rows.size(), " chunks, deviation ", deviation));
          const std::vector<float> out = Run(run, c.shape, batch, strategy);
          ExpectMatchesReference(c, in, out);
          if (!other.empty()) {
            EXPECT_TRUE(SameBits(out, other)) << "than the other way";
          }
          other = out;
        }
      }
    }
  }
}

// Sessions of different rows and chunks in one call, and rows of one case cut into groups: as
// alone, and that either way.
template <typename Runner>
void CheckARowHasTheSameBitsInAnyBatch(const Runner& run) {
  const GcaShape shape{4, 2, 64};
  const std::vector<Case> sessions = {
      {shape, 5, {63, 1, 16, 17}}, {shape, 1, {}}, {shape, 1, {63}}, {shape, 64, {40, 63}}};
  for (DType q_dtype : kDTypes) {
    Batch together;
    std::vector<Batch> alone;
    std::vector<Inputs> kept;  // the chunks' memory
    kept.reserve(sessions.size());
    for (const Case& c : sessions) {
      const Inputs& in = kept.emplace_back(c, 1.0f, q_dtype);
      AddGroup(in, 0, c.rows, &together);
      for (int64_t r = 0; r < c.rows; ++r) AddGroup(in, r, r + 1, &alone.emplace_back());
    }
    const std::vector<float> expected = Run(run, shape, together, GcaPlan::Strategy::kByGroup);
    for (GcaPlan::Strategy strategy : kStrategies) {
      SCOPED_TRACE(NameOf(strategy, q_dtype));
      EXPECT_TRUE(SameBits(Run(run, shape, together, strategy), expected));
      std::vector<float> rows;
      for (const Batch& single : alone) {
        const std::vector<float> out = Run(run, shape, single, strategy);
        rows.insert(rows.end(), out.begin(), out.end());
      }
      EXPECT_TRUE(SameBits(rows, expected)) << "alone";
    }
  }
}

}  // namespace recollect::kernels::gca_cases

#endif  // RECOLLECT_TESTS_KERNELS_GCA_GCA_DEVICE_CHECKS_H_
