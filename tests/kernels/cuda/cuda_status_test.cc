#include "kernels/cuda/cuda_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "kernels/gemm/cublaslt.h"

namespace recollect::kernels {
namespace {

using ::testing::StartsWith;

// Needs no device: only names and messages.
TEST(CudaStatusTest, CodesSayWhatTheCallerShouldDo) {
  EXPECT_EQ(CudaStatus(cudaSuccess, "copy"), absl::OkStatus());
  EXPECT_EQ(CudaStatus(cudaErrorMemoryAllocation, "copy").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CudaStatus(cudaErrorInvalidValue, "copy").code(), absl::StatusCode::kInternal);
  // Too many threads or registers, and no lack of memory.
  EXPECT_EQ(CudaStatus(cudaErrorLaunchOutOfResources, "copy").code(), absl::StatusCode::kInternal);
  // After each of these nothing runs in the context any more.
  for (const cudaError_t error :
       {cudaErrorIllegalAddress, cudaErrorMisalignedAddress, cudaErrorInvalidAddressSpace,
        cudaErrorIllegalInstruction, cudaErrorInvalidPc, cudaErrorLaunchFailure,
        cudaErrorLaunchTimeout, cudaErrorHardwareStackError, cudaErrorECCUncorrectable,
        cudaErrorAssert, cudaErrorContained, cudaErrorTensorMemoryLeak,
        cudaErrorNvlinkUncorrectable, cudaErrorContextIsDestroyed, cudaErrorMpsClientTerminated,
        cudaErrorExternalDevice}) {
    const absl::Status status = CudaStatus(error, "copy");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith("copy: "));
  }
}

TEST(CublasStatusTest, CodesSayWhatTheCallerShouldDo) {
  using Code = absl::StatusCode;
  EXPECT_EQ(CublasStatus(CUBLAS_STATUS_SUCCESS, "product"), absl::OkStatus());
  const std::pair<cublasStatus_t, Code> codes[] = {
      {CUBLAS_STATUS_ALLOC_FAILED, Code::kResourceExhausted},
      {CUBLAS_STATUS_NOT_INITIALIZED, Code::kUnavailable},
      {CUBLAS_STATUS_EXECUTION_FAILED, Code::kUnavailable},
      {CUBLAS_STATUS_INVALID_VALUE, Code::kUnimplemented},
      {CUBLAS_STATUS_NOT_SUPPORTED, Code::kUnimplemented},
      {CUBLAS_STATUS_INTERNAL_ERROR, Code::kInternal},
      {static_cast<cublasStatus_t>(99), Code::kInternal}};
  for (const auto& [error, code] : codes) {
    const absl::Status status = CublasStatus(error, "product");
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith("product: "));
  }
}

}  // namespace
}  // namespace recollect::kernels
