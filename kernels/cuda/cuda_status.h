// CUDA's errors as Status, for the files that call CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace recollect::kernels {

// RESOURCE_EXHAUSTED when memory ran out; UNAVAILABLE when there is no device or driver to run on,
// and for errors after which the process's context on the device is lost; INTERNAL else. The
// message is "what: CUDA's message".
inline absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  const auto message = [&] { return absl::StrCat(what, ": ", cudaGetErrorString(error)); };
  switch (error) {
    case cudaSuccess:
      return absl::OkStatus();
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(message());
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorECCUncorrectable:
    case cudaErrorAssert:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
      return absl::UnavailableError(message());
    default:
      return absl::InternalError(message());
  }
}

// To be called after a launch. CUDA also reports an earlier error here, unless it was read before.
inline absl::Status LaunchStatus(absl::string_view what) {
  return CudaStatus(cudaGetLastError(), what);
}

}  // namespace recollect::kernels
