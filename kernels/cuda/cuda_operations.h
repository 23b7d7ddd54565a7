// The operations of kernels/device/device_operations.h on a GPU: those of the *_cuda.h headers,
// queued on a stream of the user's choice. For cuda_device.cc, and for benchmarks, which time their
// own stream.
#ifndef RECOLLECT_KERNELS_CUDA_CUDA_OPERATIONS_H_
#define RECOLLECT_KERNELS_CUDA_CUDA_OPERATIONS_H_

#include <cuda_runtime_api.h>

#include <map>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "base/status.h"
#include "kernels/block_topk/block_bounds_cuda.h"
#include "kernels/block_topk/block_topk_cuda.h"
#include "kernels/copy/copy_cuda.h"
#include "kernels/device/device_operations.h"
#include "kernels/elementwise/elementwise_cuda.h"
#include "kernels/gated_scan/gated_scan_cuda.h"
#include "kernels/gca/gca_cuda.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/landmark_topk/landmark_topk_cuda.h"
#include "kernels/linear_attention/features_cuda.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/pointer_mix/pointer_mix_cuda.h"
#include "kernels/range_attention/range_attention_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/sample/sample_cuda.h"
#include "kernels/tile_attention/tile_attention_cuda.h"

namespace recollect::kernels {

// The products of a device, by shape. Thread-safe.
class CudaGemms {
 public:
  absl::Status Prepare(const GemmShape& shape) {
    MutexLock lock(mutex_);
    return Find(shape).status();
  }
  absl::Status Run(cudaStream_t stream, const GemmShape& shape, const void* weights, const void* x,
                   int64_t rows, void* y) {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const GemmCuda* const gemm, Find(shape));
    return gemm->Run(stream, weights, x, rows, y);
  }
  void Clear() {
    MutexLock lock(mutex_);
    gemms_.clear();
  }

  explicit CudaGemms(CublasLt lt) : lt_(std::move(lt)) {}

 private:
  absl::StatusOr<const GemmCuda*> Find(const GemmShape& shape)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto found = gemms_.find(shape);
    if (found == gemms_.end()) {
      ASSIGN_OR_RETURN(GemmCuda gemm, GemmCuda::Create(lt_, shape));
      found = gemms_.emplace(shape, std::move(gemm)).first;
    }
    return &found->second;
  }

  const CublasLt lt_;
  // Calls for one shape may share memory, so the lock is also held while a product is queued.
  Mutex mutex_;
  std::map<GemmShape, GemmCuda> gemms_ ABSL_GUARDED_BY(mutex_);
};

// Interface: Device or DeviceOperations. Borrows the products.
template <typename Interface>
class CudaOperations : public Interface {
 public:
  absl::Status Zero(void* to, int64_t bytes) override {
    return Queue([&](cudaStream_t stream) {
      if (bytes == 0) return absl::OkStatus();
      return CudaStatus(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), stream), "zeros");
    });
  }
  absl::Status Copy(const DeviceCopy* copies, int64_t count, int64_t most_bytes) override {
    return Queue([&](cudaStream_t stream) { return CopyCuda(stream, copies, count, most_bytes); });
  }

  absl::Status Gemm(const GemmShape& shape, const void* weights, const void* x, int64_t rows,
                    void* y) override {
    return Queue(
        [&](cudaStream_t stream) { return gemms_.Run(stream, shape, weights, x, rows, y); });
  }

  absl::Status RmsNorm(const RowSizes& sizes, const float* x, const float* gain, float eps,
                       const DeviceRows& y) override {
    return QueueRows(y, [&](cudaStream_t stream, auto* to) {
      return RmsNormCuda(stream, sizes, x, gain, eps, to);
    });
  }
  absl::Status RmsNormByHead(const RowSizes& sizes, const float* x, const float* gain, float eps,
                             float* y) override {
    return Queue(
        [&](cudaStream_t stream) { return RmsNormByHeadCuda(stream, sizes, x, gain, eps, y); });
  }
  absl::Status SwiGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) override {
    return QueueRows(
        y, [&](cudaStream_t stream, auto* to) { return SwiGluCuda(stream, x, rows, width, to); });
  }
  absl::Status GeGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) override {
    return QueueRows(
        y, [&](cudaStream_t stream, auto* to) { return GeGluCuda(stream, x, rows, width, to); });
  }
  absl::Status Gelu(const float* x, int64_t count, const DeviceRows& y) override {
    return QueueRows(y,
                     [&](cudaStream_t stream, auto* to) { return GeluCuda(stream, x, count, to); });
  }
  absl::Status SigmoidGate(const float* gate, int64_t gate_stride, const float* x, int64_t rows,
                           int64_t width, const DeviceRows& y) override {
    return QueueRows(y, [&](cudaStream_t stream, auto* to) {
      return SigmoidGateCuda(stream, gate, gate_stride, x, rows, width, to);
    });
  }
  absl::Status Add(const float* x, int64_t count, float* y) override {
    return Queue([&](cudaStream_t stream) { return AddCuda(stream, x, count, y); });
  }
  absl::Status ConvertToBf16(const float* x, int64_t stride, int64_t rows, int64_t width,
                             Bf16* y) override {
    return Queue(
        [&](cudaStream_t stream) { return ConvertToBf16Cuda(stream, x, stride, rows, width, y); });
  }

  absl::Status Rope(const RowSizes& sizes, RopePairs pairs, const float* cosines,
                    const float* sines, float* x) override {
    return Queue(
        [&](cudaStream_t stream) { return RopeCuda(stream, sizes, pairs, cosines, sines, x); });
  }
  absl::Status GatedScan(const GatedScanPlan& plan, const GatedScanDeviceArrays& arrays) override {
    return Queue([&](cudaStream_t stream) { return GatedScanCuda(stream, plan, arrays); });
  }
  absl::Status RangeAttention(const RangeAttentionPlan& plan,
                              const RangeDeviceArrays& arrays) override {
    return Queue([&](cudaStream_t stream) { return RangeAttentionCuda(stream, plan, arrays); });
  }
  absl::Status TileAttention(const TileAttentionPlan& plan,
                             const TileDeviceArrays& arrays) override {
    return Queue([&](cudaStream_t stream) { return TileAttentionCuda(stream, plan, arrays); });
  }
  absl::Status Gca(const GcaPlan& plan, const GcaDeviceArrays& arrays) override {
    return Queue([&](cudaStream_t stream) { return GcaCuda(stream, plan, arrays); });
  }
  absl::Status LandmarkTopK(const LandmarkTopKPlan& plan, const float* queries,
                            const SegmentStart* segments, void* workspace,
                            const DeviceTopK& best) override {
    return Queue([&](cudaStream_t stream) {
      return LandmarkTopKCuda(stream, plan, queries, segments, workspace, best);
    });
  }
  absl::Status BlockBounds(const BlockBoundsSizes& sizes, const KeyBlock* blocks) override {
    return Queue([&](cudaStream_t stream) { return BlockBoundsCuda(stream, sizes, blocks); });
  }
  absl::Status BlockTopK(const BlockTopKPlan& plan, const BlockTopKDeviceArrays& arrays) override {
    return Queue([&](cudaStream_t stream) { return BlockTopKCuda(stream, plan, arrays); });
  }
  absl::Status Features(FeatureMap map, const RowSizes& sizes, const float* x, const float* scale,
                        float* features) override {
    return Queue(
        [&](cudaStream_t stream) { return FeaturesCuda(stream, map, sizes, x, scale, features); });
  }
  absl::Status LinearAttention(const LinearAttentionPlan& plan,
                               const LinearAttentionDeviceArrays& arrays) override {
    return Queue([&](cudaStream_t stream) { return LinearAttentionCuda(stream, plan, arrays); });
  }
  absl::Status MixPointed(int64_t rows, int64_t vocab, int32_t sentinel,
                          const PointedToken* pointed, const int64_t* ends,
                          float* logits) override {
    return Queue([&](cudaStream_t stream) {
      return MixPointedCuda(stream, rows, vocab, sentinel, pointed, ends, logits);
    });
  }
  absl::Status Sample(const float* logits, int64_t rows, int32_t vocab, const NeverChosen& never,
                      const SampleSettings* settings, int32_t* choices) override {
    return Queue([&](cudaStream_t stream) {
      return SampleCuda(stream, logits, rows, vocab, never, settings, choices);
    });
  }

 protected:
  explicit CudaOperations(CudaGemms& gemms) : gemms_(gemms) {}

  // Runs call(stream) with the device current.
  virtual absl::Status Queue(absl::FunctionRef<absl::Status(cudaStream_t)> call) = 0;

 private:
  template <typename Call>
  absl::Status QueueRows(const DeviceRows& y, Call call) {
    return Queue([&](cudaStream_t stream) {
      return WithNumbers(y, [&](auto* to) { return call(stream, to); });
    });
  }

  CudaGemms& gemms_;
};

// Queues on one borrowed stream of the current device.
class CudaStreamOperations final : public CudaOperations<DeviceOperations> {
 public:
  CudaStreamOperations(cudaStream_t stream, CudaGemms& gemms)
      : CudaOperations(gemms), stream_(stream) {}

 private:
  absl::Status Queue(absl::FunctionRef<absl::Status(cudaStream_t)> call) override {
    return call(stream_);
  }

  const cudaStream_t stream_;
};

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_CUDA_CUDA_OPERATIONS_H_
