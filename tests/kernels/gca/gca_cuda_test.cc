#include "kernels/gca/gca_cuda.h"

#include <memory>

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/gca/gca_device_checks.h"

namespace recollect::kernels {
namespace {

class GcaCudaTest : public CudaTest {};

// Copies everything to the device, the chunks' memory one element past an aligned address when
// `shift` is 1, and runs the kernels there.
auto OnDevice(size_t shift) {
  return
      [shift](const GcaPlan& plan, const std::vector<float>& q, const std::vector<GcaGroup>& groups,
              const std::vector<MemoryView>& chunks, const std::vector<float>& weights) {
        const int64_t row = int64_t{plan.shape.kv_heads} * plan.shape.head_dim;
        std::vector<std::unique_ptr<DeviceArray<Bf16>>> memory;
        std::vector<MemoryView> views;
        for (const MemoryView& chunk : chunks) {
          const auto upload = [&](const Bf16* from) {
            const std::vector<Bf16> content(from, from + chunk.rows * row);
            return memory.emplace_back(std::make_unique<DeviceArray<Bf16>>(content, shift))->data();
          };
          const Bf16* keys = upload(chunk.keys);
          views.push_back({keys, upload(chunk.values), chunk.rows});
        }
        const DeviceArray<float> device_q(q, shift), device_weights(weights);
        const DeviceArray<Bf16> narrow_q(gca_cases::ToBf16(q), shift);
        const DeviceArray<GcaGroup> device_groups(groups);
        const DeviceArray<MemoryView> device_chunks(views);
        const DeviceArray<float> workspace(Nans(plan.workspace_bytes / int64_t{sizeof(float)}));
        const DeviceArray<float> out(Nans(static_cast<int64_t>(q.size())), shift);
        GcaOp op;
        op.plan = plan;
        op.q = plan.q_dtype == DType::kBf16 ? static_cast<const void*>(narrow_q.data())
                                            : device_q.data();
        op.groups = device_groups.data();
        op.group_count = static_cast<int64_t>(groups.size());
        op.chunks = device_chunks.data();
        op.weights = device_weights.data();
        op.workspace = workspace.data();
        op.out = out.data();
        EXPECT_EQ(Launch(nullptr, op), absl::OkStatus());
        return out.Download();
      };
}

TEST_F(GcaCudaTest, MatchesReferenceBothWays) {
  gca_cases::CheckMatchesReference(OnDevice(0));
  gca_cases::CheckMatchesReference(OnDevice(1));
}

TEST_F(GcaCudaTest, ARowHasTheSameBitsInAnyBatch) {
  gca_cases::CheckARowHasTheSameBitsInAnyBatch(OnDevice(0));
}

// The bits of tensor cores are the device's own.
TEST_F(GcaCudaTest, InFp32HasTheBitsOfTheHostRun) {
  const auto host = [](const GcaPlan& plan, const std::vector<float>& q,
                       const std::vector<GcaGroup>& groups, const std::vector<MemoryView>& chunks,
                       const std::vector<float>& weights) {
    return gca_cases::RunOnHost(plan, q, groups, chunks, weights, HostOrder::kPhases);
  };
  for (const gca_cases::Case& c : gca_cases::Cases()) {
    const gca_cases::Inputs in(c, 1);
    gca_cases::Batch batch;
    gca_cases::AddGroup(in, 0, c.rows, &batch);
    for (GcaPlan::Strategy strategy : gca_cases::kStrategies) {
      const std::vector<float> expected = gca_cases::Run(host, c.shape, batch, strategy);
      for (size_t shift : {0, 1}) {
        EXPECT_TRUE(SameBits(gca_cases::Run(OnDevice(shift), c.shape, batch, strategy), expected))
            << gca_cases::NameOf(strategy, in.q_dtype) << ", " << c.rows << " rows, shift "
            << shift;
      }
    }
  }
}

TEST_F(GcaCudaTest, RefusesMoreGroupsThanPlanned) {
  const GcaPlan plan =
      *PlanGca({4, 4, 64}, {.groups = 1, .rows = 1, .max_group_rows = 1}, DType::kFloat32);
  EXPECT_EQ(Launch(nullptr, GcaOp{.plan = plan, .group_count = 2}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recollect::kernels
