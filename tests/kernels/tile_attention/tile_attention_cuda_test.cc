#include "kernels/tile_attention/tile_attention_cuda.h"

#include <memory>

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/tile_attention/tile_attention_device_checks.h"

namespace recollect::kernels {
namespace {

class TileAttentionCudaTest : public CudaTest {};

// Copies everything to the device, caches and q one element past an aligned address when `shift` is
// 1, and runs the kernels there.
auto OnDevice(size_t shift) {
  return [shift](const TileAttentionPlan& plan, const tile_cases::Call& call, int64_t most_rows) {
    std::vector<std::unique_ptr<DeviceArray<Bf16>>> memory;
    for (const std::vector<Bf16>& content : call.memory) {
      memory.push_back(std::make_unique<DeviceArray<Bf16>>(content, shift));
    }
    const TileAttentionSizes& sizes = plan.sizes;
    const DeviceArray<Bf16> q(call.q, shift);
    const DeviceArray<RowTile> tiles(tile_cases::TilesOf(
        call, most_rows, [&](size_t i) -> const Bf16* { return memory[i]->data(); }));
    const DeviceArray<RangeSet> sets(call.sets);
    const DeviceArray<float> workspace(Nans(plan.workspace_bytes / int64_t{sizeof(float)}));
    const DeviceArray<float> out(Nans(sizes.rows * sizes.heads * sizes.head_dim), shift);
    TileAttentionOp op;
    op.plan = plan;
    op.q = q.data();
    op.q_stride = call.q_stride;
    op.kv_stride = call.kv_stride;
    op.tiles = tiles.data();
    op.sets = sets.data();
    op.workspace = workspace.data();
    op.out = out.data();
    EXPECT_EQ(Launch(nullptr, op), absl::OkStatus());
    return out.Download();
  };
}

TEST_F(TileAttentionCudaTest, MatchesReferenceBothWays) {
  tile_cases::CheckMatchesReference(OnDevice(0));
  tile_cases::CheckMatchesReference(OnDevice(1));
}

TEST_F(TileAttentionCudaTest, ARowHasTheSameBitsInAnyBatch) {
  tile_cases::CheckARowHasTheSameBitsInAnyBatch(OnDevice(0));
}

TEST_F(TileAttentionCudaTest, OnlyIndicesWithinASplitMatter) {
  tile_cases::CheckOnlyIndicesWithinASplitMatter(OnDevice(0));
}

// Products and powers of two are the device's own: no bits of the host's, but the same at any
// address.
TEST_F(TileAttentionCudaTest, AddressesDoNotMatter) {
  for (const tile_cases::Case& c : tile_cases::Cases()) {
    const tile_cases::Inputs in = tile_cases::InputsOf(c);
    const tile_cases::Call call = tile_cases::CallOf(c, in, 0, in.rows);
    for (TileAttentionPlan::Strategy strategy : tile_cases::kStrategies) {
      EXPECT_TRUE(SameBits(tile_cases::Run(OnDevice(1), c, call, strategy),
                           tile_cases::Run(OnDevice(0), c, call, strategy)))
          << tile_cases::NameOf(strategy) << ", " << c.name;
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
