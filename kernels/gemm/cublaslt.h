// cuBLASLt's handle and errors, for the files that call it.
#pragma once

#include <cublasLt.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace recollect::kernels {

// As CudaStatus (cuda_status.h): RESOURCE_EXHAUSTED when memory ran out; UNAVAILABLE when there is
// no device or driver to run on, and when the device failed; UNIMPLEMENTED for a product or an
// algorithm that the library lacks for these sizes, this memory or this device; INTERNAL else.
inline absl::Status CublasStatus(cublasStatus_t error, absl::string_view what) {
  const auto message = [&] {
    return absl::StrCat(what, ": ", cublasLtGetStatusName(error), ", ",
                        cublasLtGetStatusString(error));
  };
  switch (error) {
    case CUBLAS_STATUS_SUCCESS:
      return absl::OkStatus();
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::ResourceExhaustedError(message());
    case CUBLAS_STATUS_NOT_INITIALIZED:
    case CUBLAS_STATUS_MAPPING_ERROR:
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return absl::UnavailableError(message());
    case CUBLAS_STATUS_INVALID_VALUE:
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return absl::UnimplementedError(message());
    case CUBLAS_STATUS_INTERNAL_ERROR:
    case CUBLAS_STATUS_LICENSE_ERROR:
      return absl::InternalError(message());
  }
  return absl::InternalError(message());
}

// Owns a handle for the device that was current at its creation. Movable. Must outlive everything
// that is created with it.
class CublasLt {
 public:
  static absl::StatusOr<CublasLt> Create() {
    cublasLtHandle_t handle = nullptr;
    const cublasStatus_t error = cublasLtCreate(&handle);
    if (error != CUBLAS_STATUS_SUCCESS) return CublasStatus(error, "handle of cuBLASLt");
    return CublasLt(handle);
  }
  cublasLtHandle_t handle() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  };
  explicit CublasLt(cublasLtHandle_t handle) : handle_(handle) {}
  std::unique_ptr<cublasLtContext, Destroy> handle_;
};

}  // namespace recollect::kernels
