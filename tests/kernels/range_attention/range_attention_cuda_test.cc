#include "kernels/range_attention/range_attention_cuda.h"

#include <memory>

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/range_attention/range_attention_device_checks.h"

namespace recollect::kernels {
namespace {

class RangeAttentionCudaTest : public CudaTest {};

// Copies everything to the device, caches and q one element past an aligned address when `shift` is
// 1, and runs the kernels there.
auto OnDevice(size_t shift) {
  return [shift](const RangeAttentionPlan& plan, const range_cases::Call& call) {
    std::vector<std::unique_ptr<DeviceArray<float>>> memory;
    std::vector<KvSpan> parts;
    for (const KvSpan& part : call.parts) {
      const auto upload = [&](const float* from) {
        const std::vector<float> content(from, from + call.part_floats);
        return memory.emplace_back(std::make_unique<DeviceArray<float>>(content, shift))->data();
      };
      const float* keys = upload(part.keys);
      parts.push_back({keys, upload(part.values)});
    }
    const RangeAttentionSizes& sizes = plan.sizes;
    const DeviceArray<float> q(call.q, shift);
    const DeviceArray<KvSpan> device_parts(parts);
    const DeviceArray<RangeSet> sets(call.sets);
    const DeviceArray<int32_t> entries(call.entries), counts(call.counts);
    const DeviceArray<float> slopes(call.slopes);
    const DeviceArray<float> workspace(Nans(plan.workspace_bytes / int64_t{sizeof(float)}));
    const DeviceArray<float> out(Nans(sizes.rows * sizes.heads * sizes.head_dim), shift);
    RangeAttentionOp op;
    op.plan = plan;
    op.q = q.data();
    op.q_stride = call.q_stride;
    op.parts = device_parts.data();
    op.parts_per_row = call.parts_per_row;
    op.sets = sets.data();
    if (!call.counts.empty()) op.lists = {entries.data(), counts.data()};
    op.slopes = call.slopes.empty() ? nullptr : slopes.data();
    op.workspace = workspace.data();
    op.out = out.data();
    EXPECT_EQ(Launch(nullptr, op), absl::OkStatus());
    return out.Download();
  };
}

TEST_F(RangeAttentionCudaTest, MatchesReferenceBothWays) {
  range_cases::CheckMatchesReference(OnDevice(0));
  range_cases::CheckMatchesReference(OnDevice(1));
}

TEST_F(RangeAttentionCudaTest, ARowHasTheSameBitsInAnyBatch) {
  range_cases::CheckARowHasTheSameBitsInAnyBatch(OnDevice(0));
}

TEST_F(RangeAttentionCudaTest, ListsHaveTheBitsOfRanges) {
  range_cases::CheckListsHaveTheBitsOfRanges(OnDevice(0));
}

TEST_F(RangeAttentionCudaTest, HasTheBitsOfTheHostRun) {
  const auto host = [](const RangeAttentionPlan& plan, const range_cases::Call& call) {
    return range_cases::RunOnHost(plan, call, HostOrder::kPhases);
  };
  for (const range_cases::Case& c : range_cases::Cases()) {
    const range_cases::Inputs in(c);
    const range_cases::Call call = CallOf(c, in, 0, in.rows);
    for (RangeAttentionPlan::Strategy strategy : range_cases::kStrategies) {
      const std::vector<float> expected = range_cases::Run(host, c, call, strategy);
      for (size_t shift : {0, 1}) {
        EXPECT_TRUE(SameBits(range_cases::Run(OnDevice(shift), c, call, strategy), expected))
            << range_cases::NameOf(strategy) << ", " << c.name << ", shift " << shift;
      }
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
