#include "kernels/cuda_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace recollect::kernels {
namespace {

using ::testing::StartsWith;

// Needs no device: only names and messages.
TEST(CudaStatusTest, CodesSayWhatTheCallerShouldDo) {
  EXPECT_EQ(CudaStatus(cudaSuccess, "copy"), absl::OkStatus());
  EXPECT_EQ(CudaStatus(cudaErrorMemoryAllocation, "copy").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CudaStatus(cudaErrorInvalidValue, "copy").code(), absl::StatusCode::kInternal);
  // After each of these nothing runs in the context any more.
  for (const cudaError_t error :
       {cudaErrorIllegalAddress, cudaErrorMisalignedAddress, cudaErrorInvalidAddressSpace,
        cudaErrorIllegalInstruction, cudaErrorInvalidPc, cudaErrorLaunchFailure,
        cudaErrorLaunchTimeout, cudaErrorHardwareStackError, cudaErrorECCUncorrectable,
        cudaErrorAssert}) {
    const absl::Status status = CudaStatus(error, "copy");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith("copy: "));
  }
}

}  // namespace
}  // namespace recollect::kernels
