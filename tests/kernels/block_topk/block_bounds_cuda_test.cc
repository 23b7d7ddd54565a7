#include "kernels/block_topk/block_bounds_cuda.h"

#include "tests/kernels/block_topk/block_bounds_device_checks.h"
#include "tests/kernels/cuda/cuda_test_util.h"

namespace recollect::kernels {
namespace {

class BlockBoundsCudaTest : public CudaTest {};

bounds_cases::Bounds OnDevice(const bounds_cases::Call& call, size_t shift) {
  return bounds_cases::RunIn<DeviceArray>(call, shift, [&](const KeyBlock* blocks) {
    EXPECT_EQ(Launch(nullptr, BlockBoundsOp{call.sizes, blocks}), absl::OkStatus());
  });
}

TEST_F(BlockBoundsCudaTest, HasTheBitsOfThePlainLoop) {
  bounds_cases::CheckHasTheBitsOfThePlainLoop(OnDevice);
}

TEST_F(BlockBoundsCudaTest, ABlockHasTheSameBitsInAnyBatch) {
  bounds_cases::CheckABlockHasTheSameBitsInAnyBatch(OnDevice);
}

TEST_F(BlockBoundsCudaTest, NumbersAtTheEdge) { bounds_cases::CheckNumbersAtTheEdge(OnDevice); }

// Many thread blocks.
TEST_F(BlockBoundsCudaTest, HasTheBitsOfThePlainLoopOverManyBlocks) {
  for (const bool mean : {false, true}) {
    const bounds_cases::Call call = bounds_cases::CallOf(200, 64, 2048, mean);
    bounds_cases::ExpectSame(OnDevice(call, 0), bounds_cases::Expected(call));
  }
}

TEST_F(BlockBoundsCudaTest, RefusesWhatNoLaunchTakes) {
  EXPECT_EQ(Launch(nullptr, BlockBoundsOp{{.blocks = -1, .block = 1, .width = 1}}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recollect::kernels
