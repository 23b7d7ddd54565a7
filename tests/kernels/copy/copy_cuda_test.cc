#include "kernels/copy/copy_cuda.h"

#include "tests/kernels/copy/copy_device_checks.h"
#include "tests/kernels/cuda/cuda_test_util.h"

namespace recollect::kernels {
namespace {

class CopyCudaTest : public CudaTest {};

std::vector<uint32_t> OnDevice(const copy_cases::Call& call) {
  return copy_cases::RunIn<DeviceArray>(
      call, [](const CopyOp& op) { EXPECT_EQ(Launch(nullptr, op), absl::OkStatus()); });
}

TEST_F(CopyCudaTest, CopiesAllThatIsAskedAndNoMore) {
  copy_cases::CheckCopiesAllThatIsAskedAndNoMore(OnDevice);
}

// More slices than the device holds warps.
TEST_F(CopyCudaTest, CopiesOfManySequences) {
  copy_cases::Call rows = copy_cases::CallOf(100'000);
  for (int64_t i = 0; i < 20'000; ++i) rows.Add(256, 0, 0);
  copy_cases::ExpectCopied(OnDevice, rows);
  copy_cases::Call documents = copy_cases::CallOf(4'000'000);
  for (int64_t i = 0; i < 5; ++i) documents.Add(3'000'000 + i, 0, i % 4);
  copy_cases::ExpectCopied(OnDevice, documents);
}

TEST_F(CopyCudaTest, RefusesWhatNoLaunchTakes) {
  EXPECT_EQ(Launch(nullptr, CopyOp{nullptr, -1, 4}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recollect::kernels
