// Matrix products on a CUDA device, by cuBLASLt: y = x Wᵀ, or y += x Wᵀ (the residual), fp32 from
// fp32 (no TF32), fp32 or, not added, bf16 from bf16; sums are fp32.
//
// Same rows, same bits, as gemm.h: on one device with one version of cuBLASLt a row's result does
// not depend on how many rows came with it or on its place among them. A shape's products use one
// algorithm, or several by their number of rows, which neither split k nor have a workspace to add
// parts in; cuBLASLt promises no more than that, so they are ones whose bits agreed on test numbers
// when the object was made (gemm_cuda_plan.h). Other shapes, formats or `add` may have other
// algorithms. The bits are not those of the CPU's products.
//   ASSIGN_OR_RETURN(CublasLt lt, CublasLt::Create());
//   ASSIGN_OR_RETURN(GemmCuda up, GemmCuda::Create(lt, {.n = 1280, .k = 256}));
//   RETURN_IF_ERROR(up.Run(stream, weights, x, rows, y));
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/sync/mutex.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/gemm/cublaslt.h"
#include "kernels/gemm/gemm_choices.h"
#include "kernels/gemm/gemm_cuda_plan.h"

namespace recollect::kernels {

// The products of one shape, for all weight matrices that have it. Belongs to the device that was
// current when it was made. Movable. Borrows `lt`. One thread at a time.
class GemmCuda {
 public:
  // Chooses the algorithms, by some hundred products of test numbers, or some thousand where no
  // algorithm will do alone: takes device memory for a weight matrix, some thousand rows and their
  // results, and gives it back; synchronises. Statuses of CheckGemmShape, CublasStatus and
  // CudaStatus, which name the shape.
  static absl::StatusOr<GemmCuda> Create(const CublasLt& lt, const GemmShape& shape);

  // Uses what Create chose at another time, on this kind of device with this version of cuBLASLt.
  // Any status: this is not to be used here.
  static absl::StatusOr<GemmCuda> Restore(const CublasLt& lt, const GemmShape& shape,
                                          const GemmChoice& choice);
  GemmChoice choice() const;

  // weights [n, k], x [rows, k] of shape.in, y [rows, n] of shape.out, row-major and dense in
  // device memory, borrowed until the work queued here on `stream` is done; the call returns before
  // that. y does not overlap the others. weights begin at a multiple of 16 bytes; so do x and y, or
  // at a whole number of rows past one; else INVALID_ARGUMENT. rows >= 0, any number of them. May
  // be captured into a graph. Where plan() pads, calls share memory: one stream at a time.
  absl::Status Run(cudaStream_t stream, const void* weights, const void* x, int64_t rows,
                   void* y) const;

  const GemmShape& shape() const { return shape_; }
  const GemmPlan& plan() const { return plan_; }

  // Behaves as if no algorithm had agreed on all numbers of rows.
  absl::Status UseTilesForTest(int64_t rows) {
    return Use({{{rows, rows, PieceAt(plan_, 0, rows).algorithm}}});
  }

 private:
  GemmCuda(cublasLtHandle_t handle, const GemmShape& shape) : handle_(handle), shape_(shape) {}
  absl::Status Use(const GemmPlan& plan);

  cublasLtHandle_t handle_;
  GemmShape shape_;
  GemmPlan plan_;
  std::vector<cublasLtMatmulAlgo_t> algorithms_;
  DeviceMemory padded_x_, padded_y_;  // [padded_rows, k] and [padded_rows, n]; may be null
};

// The products of a device, by shape. Thread-safe.
class CudaGemms {
 public:
  // Chooses algorithms at each start.
  explicit CudaGemms(CublasLt lt) : CudaGemms(std::move(lt), GemmChoices("", "", 0)) {}
  // Chooses what `choices` lacks, and keeps it there.
  CudaGemms(CublasLt lt, GemmChoices choices) : lt_(std::move(lt)), choices_(std::move(choices)) {}

  absl::Status Prepare(const GemmShape& shape) {
    MutexLock lock(mutex_);
    return Find(shape).status();
  }
  absl::Status Run(cudaStream_t stream, const GemmOp& op) {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const GemmCuda* const gemm, Find(op.shape));
    return gemm->Run(stream, op.weights, op.x, op.rows, op.y);
  }
  void Clear() {
    MutexLock lock(mutex_);
    gemms_.clear();
  }

 private:
  absl::StatusOr<const GemmCuda*> Find(const GemmShape& shape)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto found = gemms_.find(shape);
    if (found == gemms_.end()) {
      ASSIGN_OR_RETURN(GemmCuda gemm, Make(shape));
      found = gemms_.emplace(shape, std::move(gemm)).first;
    }
    return &found->second;
  }

  absl::StatusOr<GemmCuda> Make(const GemmShape& shape) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CublasLt lt_;
  // Calls for one shape may share memory, so the lock is also held while a product is queued.
  Mutex mutex_;
  GemmChoices choices_ ABSL_GUARDED_BY(mutex_);
  std::map<GemmShape, GemmCuda> gemms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::kernels
