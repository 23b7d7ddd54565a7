#include "kernels/block_topk/block_topk_cuda.h"

#include "tests/kernels/block_topk/block_topk_device_checks.h"
#include "tests/kernels/cuda/cuda_test_util.h"

namespace recollect::kernels {
namespace {

class BlockTopKCudaTest : public CudaTest {};

auto OnDevice(size_t shift) {
  return [shift](const BlockTopKPlan& plan, const block_cases::Call& call) {
    return block_cases::RunIn<DeviceArray>(plan, call, shift, [&](const BlockTopKOp& op) {
      EXPECT_EQ(Launch(nullptr, op), absl::OkStatus());
    });
  };
}

TEST_F(BlockTopKCudaTest, ListsMatchReference) {
  block_cases::CheckListsMatchReference(OnDevice(0));
  block_cases::CheckListsMatchReference(OnDevice(1));
}

TEST_F(BlockTopKCudaTest, SameListsInAnyBatchAndCut) {
  block_cases::CheckSameListsInAnyBatchAndCut(OnDevice(0));
}

TEST_F(BlockTopKCudaTest, TiesAndScoresThatAreNoNumbers) { block_cases::CheckOrder(OnDevice(0)); }

TEST_F(BlockTopKCudaTest, NoRows) { EXPECT_TRUE(block_cases::Run(OnDevice(0), {}).empty()); }

TEST_F(BlockTopKCudaTest, HasTheListsOfTheHostRun) {
  const auto host = [](const BlockTopKPlan& plan, const block_cases::Call& call) {
    return block_cases::RunOnHost(plan, call, HostOrder::kPhases);
  };
  for (const int dim : {33, 128}) {
    block_cases::Call call = block_cases::RandomCall(4, dim, 16, 16, 1500, false);
    call.patterns = {block_cases::kPatterns[3]};
    const block_cases::Lists expected = block_cases::Run(host, call);
    for (const size_t shift : {0, 1}) {
      EXPECT_EQ(block_cases::Run(OnDevice(shift), call, Multiprocessors()), expected)
          << dim << ", shift " << shift;
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
