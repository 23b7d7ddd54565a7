#include "kernels/rope/rope_cuda.h"

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/rope/rope_device_checks.h"

namespace recollect::kernels {
namespace {

class RopeCudaTest : public CudaTest {};

std::vector<float> OnDevice(const rope_cases::Call& call, size_t shift) {
  const DeviceArray<float> cosines(call.cosines, shift), sines(call.sines, shift);
  const DeviceArray<float> x(call.x, shift);
  EXPECT_EQ(Launch(nullptr,
                   RopeOp{call.sizes, call.angles.pairs, cosines.data(), sines.data(), x.data()}),
            absl::OkStatus());
  return x.Download();
}

TEST_F(RopeCudaTest, MatchesReferenceAndTheBitsOfTheCpu) {
  rope_cases::CheckMatchesReferenceAndTheBitsOfTheCpu(OnDevice);
}

TEST_F(RopeCudaTest, ARowHasTheSameBitsInAnyBatch) {
  rope_cases::CheckARowHasTheSameBitsInAnyBatch(OnDevice);
}

// Many blocks.
TEST_F(RopeCudaTest, HasTheBitsOfTheHostRun) {
  std::vector<int64_t> positions;
  for (int64_t row = 0; row < 1000; ++row) positions.push_back(row * row);
  for (const RopeAngles& angles : rope_cases::Angles()) {
    const rope_cases::Call call = rope_cases::CallOf(angles, 24, 64, positions);
    EXPECT_TRUE(SameBits(OnDevice(call, 0), rope_cases::RunOnHost(call, 0, HostOrder::kPhases)));
  }
}

}  // namespace
}  // namespace recollect::kernels
