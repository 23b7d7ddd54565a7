#include "kernels/cuda_device.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "base/status.h"
#include "kernels/block_bounds_cuda.h"
#include "kernels/block_topk_cuda.h"
#include "kernels/copy_cuda.h"
#include "kernels/cuda_memory.h"
#include "kernels/cuda_uploads.h"
#include "kernels/device_health.h"
#include "kernels/elementwise_cuda.h"
#include "kernels/features_cuda.h"
#include "kernels/gated_scan_cuda.h"
#include "kernels/gca_cuda.h"
#include "kernels/gemm_cuda.h"
#include "kernels/landmark_topk_cuda.h"
#include "kernels/linear_attention_cuda.h"
#include "kernels/range_attention_cuda.h"
#include "kernels/rope_cuda.h"
#include "kernels/sample_cuda.h"
#include "kernels/tile_attention_cuda.h"

namespace recollect::kernels {
namespace {

// What a device and its buffers share: the last of them takes it along.
struct Queue {
  int index = 0;
  CudaStream stream;   // operations
  CudaStream uploads;  // copies beside them
};

class CudaBuffer final : public DeviceBuffer {
 public:
  CudaBuffer(std::shared_ptr<Queue> queue, void* data, int64_t bytes)
      : DeviceBuffer(data, bytes), queue_(std::move(queue)) {}
  // On a lost device nothing can be given back, and nobody asks for it.
  ~CudaBuffer() override {
    (void)UseCudaDevice(queue_->index);
    if (cudaFreeAsync(data(), queue_->stream.get()) != cudaSuccess) (void)cudaGetLastError();
  }

 private:
  const std::shared_ptr<Queue> queue_;
};

// One that a copy beside the operations fills. It may go before that has run, or before operations
// that read it have: it waits for both where its memory is given back, among the operations.
class CudaComingBuffer final : public DeviceBuffer {
 public:
  CudaComingBuffer(std::shared_ptr<Queue> queue, void* data, int64_t bytes, CudaEvent copied)
      : DeviceBuffer(data, bytes), queue_(std::move(queue)), copied_(std::move(copied)) {}
  ~CudaComingBuffer() override {
    (void)UseCudaDevice(queue_->index);
    const cudaStream_t stream = queue_->stream.get();
    const bool given = cudaStreamWaitEvent(stream, copied_.get(), 0) == cudaSuccess &&
                       cudaFreeAsync(data(), stream) == cudaSuccess;
    if (!given) (void)cudaGetLastError();
  }
  cudaEvent_t copied() const { return copied_.get(); }

 private:
  const std::shared_ptr<Queue> queue_;
  const CudaEvent copied_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<Queue> queue, const cudaDeviceProp& properties, CublasLt lt,
             std::unique_ptr<CudaUploads> uploads, std::unique_ptr<CudaUploads> uploads_beside)
      : queue_(std::move(queue)),
        stream_(queue_->stream.get()),
        name_(absl::StrCat("cuda:", queue_->index, " ", properties.name)),
        multiprocessors_(properties.multiProcessorCount),
        uploads_(std::move(uploads)),
        uploads_beside_(std::move(uploads_beside)),
        lt_(std::move(lt)) {}
  // Work that is queued reads pinned memory and the products' own.
  ~CudaDevice() override {
    (void)UseCudaDevice(queue_->index);
    (void)cudaStreamSynchronize(stream_);
    (void)cudaStreamSynchronize(queue_->uploads.get());
    gemms_.clear();
  }

  std::string name() const override { return name_; }
  absl::Status health() const override { return health_.status(); }
  // What the pool keeps for its next buffers is free as well.
  DeviceRoom room() const override {
    cudaMemPool_t pool = nullptr;
    size_t free_bytes = 0, total_bytes = 0;
    uint64_t reserved = 0, used = 0;
    const bool known =
        health_.status().ok() && UseCudaDevice(queue_->index).ok() &&
        cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess &&
        cudaDeviceGetDefaultMemPool(&pool, queue_->index) == cudaSuccess &&
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved) ==
            cudaSuccess &&
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess;
    if (!known) {
      (void)cudaGetLastError();
      return {};
    }
    return {static_cast<int64_t>(free_bytes + reserved - used), static_cast<int64_t>(total_bytes)};
  }
  int multiprocessors() const override { return multiprocessors_; }

  absl::StatusOr<std::shared_ptr<DeviceBuffer>> Allocate(int64_t bytes) override {
    void* data = nullptr;
    RETURN_IF_ERROR(Do([&] { return AllocateOn(stream_, bytes, &data); }));
    return std::make_shared<CudaBuffer>(queue_, data, bytes);
  }
  absl::Status Upload(const void* host, int64_t bytes, void* to) override {
    return Do([&] { return uploads_->Queue(stream_, host, bytes, to); });
  }
  absl::Status Download(const void* from, int64_t bytes, void* host) override {
    return Do([&] {
      if (bytes == 0) return absl::OkStatus();
      RETURN_IF_ERROR(CudaStatus(
          cudaMemcpyAsync(host, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_),
          "download"));
      return CudaStatus(cudaStreamSynchronize(stream_), "download");
    });
  }
  absl::StatusOr<std::shared_ptr<DeviceBuffer>> UploadBeside(const void* host,
                                                             int64_t bytes) override {
    std::shared_ptr<CudaComingBuffer> buffer;
    const absl::Status status = Do([&]() -> absl::Status {
      const cudaStream_t stream = queue_->uploads.get();
      ASSIGN_OR_RETURN(CudaEvent copied, CreateEvent());
      void* data = nullptr;
      RETURN_IF_ERROR(AllocateOn(stream, bytes, &data));
      // Before its first record an event counts as done: then it holds up nobody.
      buffer = std::make_shared<CudaComingBuffer>(queue_, data, bytes, std::move(copied));
      const absl::Status queued = uploads_beside_->Queue(stream, host, bytes, data);
      RETURN_IF_ERROR(CudaStatus(cudaEventRecord(buffer->copied(), stream), "upload"));
      return queued;
    });
    if (!status.ok()) return status;
    return buffer;
  }
  absl::Status Await(const DeviceBuffer& coming) override {
    return Do([&] {
      const cudaEvent_t copied = static_cast<const CudaComingBuffer&>(coming).copied();
      return CudaStatus(cudaStreamWaitEvent(stream_, copied, 0), "upload");
    });
  }
  absl::Status Zero(void* to, int64_t bytes) override {
    return Do([&] {
      if (bytes == 0) return absl::OkStatus();
      return CudaStatus(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), stream_), "zeros");
    });
  }
  absl::Status Copy(const DeviceCopy* copies, int64_t count, int64_t most_bytes) override {
    return Do([&] { return CopyCuda(stream_, copies, count, most_bytes); });
  }

  absl::Status PrepareGemm(const GemmShape& shape) override {
    return Do([&] {
      std::lock_guard<std::mutex> lock(gemm_mutex_);
      return FindGemm(shape).status();
    });
  }
  absl::Status Gemm(const GemmShape& shape, const void* weights, const void* x, int64_t rows,
                    void* y) override {
    return Do([&] {
      std::lock_guard<std::mutex> lock(gemm_mutex_);
      ASSIGN_OR_RETURN(const GemmCuda* const gemm, FindGemm(shape));
      return gemm->Run(stream_, weights, x, rows, y);
    });
  }

  absl::Status RmsNorm(const RowSizes& sizes, const float* x, const float* gain, float eps,
                       const DeviceRows& y) override {
    return Do(y, [&](auto* to) { return RmsNormCuda(stream_, sizes, x, gain, eps, to); });
  }
  absl::Status RmsNormByHead(const RowSizes& sizes, const float* x, const float* gain, float eps,
                             float* y) override {
    return Do([&] { return RmsNormByHeadCuda(stream_, sizes, x, gain, eps, y); });
  }
  absl::Status SwiGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) override {
    return Do(y, [&](auto* to) { return SwiGluCuda(stream_, x, rows, width, to); });
  }
  absl::Status GeGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) override {
    return Do(y, [&](auto* to) { return GeGluCuda(stream_, x, rows, width, to); });
  }
  absl::Status Gelu(const float* x, int64_t count, const DeviceRows& y) override {
    return Do(y, [&](auto* to) { return GeluCuda(stream_, x, count, to); });
  }
  absl::Status SigmoidGate(const float* gate, int64_t gate_stride, const float* x, int64_t rows,
                           int64_t width, const DeviceRows& y) override {
    return Do(y, [&](auto* to) {
      return SigmoidGateCuda(stream_, gate, gate_stride, x, rows, width, to);
    });
  }
  absl::Status Add(const float* x, int64_t count, float* y) override {
    return Do([&] { return AddCuda(stream_, x, count, y); });
  }
  absl::Status ConvertToBf16(const float* x, int64_t stride, int64_t rows, int64_t width,
                             Bf16* y) override {
    return Do([&] { return ConvertToBf16Cuda(stream_, x, stride, rows, width, y); });
  }

  absl::Status Rope(const RowSizes& sizes, RopePairs pairs, const float* cosines,
                    const float* sines, float* x) override {
    return Do([&] { return RopeCuda(stream_, sizes, pairs, cosines, sines, x); });
  }
  absl::Status GatedScan(const GatedScanPlan& plan, const GatedScanDeviceArrays& arrays) override {
    return Do([&] { return GatedScanCuda(stream_, plan, arrays); });
  }
  absl::Status RangeAttention(const RangeAttentionPlan& plan,
                              const RangeDeviceArrays& arrays) override {
    return Do([&] { return RangeAttentionCuda(stream_, plan, arrays); });
  }
  absl::Status TileAttention(const TileAttentionPlan& plan,
                             const TileDeviceArrays& arrays) override {
    return Do([&] { return TileAttentionCuda(stream_, plan, arrays); });
  }
  absl::Status Gca(const GcaPlan& plan, const GcaDeviceArrays& arrays) override {
    return Do([&] { return GcaCuda(stream_, plan, arrays); });
  }
  absl::Status LandmarkTopK(const LandmarkTopKPlan& plan, const float* queries,
                            const SegmentStart* segments, void* workspace,
                            const DeviceTopK& best) override {
    return Do([&] { return LandmarkTopKCuda(stream_, plan, queries, segments, workspace, best); });
  }
  absl::Status BlockBounds(const BlockBoundsSizes& sizes, const KeyBlock* blocks) override {
    return Do([&] { return BlockBoundsCuda(stream_, sizes, blocks); });
  }
  absl::Status BlockTopK(const BlockTopKPlan& plan, const BlockTopKDeviceArrays& arrays) override {
    return Do([&] { return BlockTopKCuda(stream_, plan, arrays); });
  }
  absl::Status Features(FeatureMap map, const RowSizes& sizes, const float* x, const float* scale,
                        float* features) override {
    return Do([&] { return FeaturesCuda(stream_, map, sizes, x, scale, features); });
  }
  absl::Status LinearAttention(const LinearAttentionPlan& plan,
                               const LinearAttentionDeviceArrays& arrays) override {
    return Do([&] { return LinearAttentionCuda(stream_, plan, arrays); });
  }
  absl::Status Sample(const float* logits, int64_t rows, int32_t vocab, const NeverChosen& never,
                      const SampleSettings* settings, int32_t* choices) override {
    return Do([&] { return SampleCuda(stream_, logits, rows, vocab, never, settings, choices); });
  }

 private:
  template <typename Call>
  absl::Status Do(Call call) {
    return health_.Run([&] {
      RETURN_IF_ERROR(UseCudaDevice(queue_->index));
      absl::Status status = call();
      return status.ok() ? status : Judged(std::move(status));
    });
  }
  static absl::Status AllocateOn(cudaStream_t stream, int64_t bytes, void** data) {
    // Nothing has an address, too.
    const auto allocated = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    return CudaStatus(cudaMallocAsync(data, allocated, stream),
                      absl::StrCat(bytes, " bytes of device memory"));
  }
  // An error, as UNAVAILABLE if and only if the context is lost by now: CUDA's errors do not always
  // tell, and cuBLASLt's never.
  absl::Status Judged(absl::Status status) {
    (void)cudaGetLastError();  // else the next launch would report it again
    const cudaError_t context = cudaStreamQuery(stream_);
    (void)cudaGetLastError();
    const bool lost = context != cudaSuccess && context != cudaErrorNotReady;
    if (lost == absl::IsUnavailable(status)) return status;
    return lost ? absl::UnavailableError(
                      absl::StrCat(status.message(), "; ", cudaGetErrorString(context)))
                : absl::InternalError(status.message());
  }
  template <typename Call>
  absl::Status Do(const DeviceRows& y, Call call) {
    return Do([&] { return WithNumbers(y, call); });
  }

  // With gemm_mutex_ held.
  absl::StatusOr<const GemmCuda*> FindGemm(const GemmShape& shape) {
    auto found = gemms_.find(shape);
    if (found == gemms_.end()) {
      ASSIGN_OR_RETURN(GemmCuda gemm, GemmCuda::Create(lt_, shape));
      found = gemms_.emplace(shape, std::move(gemm)).first;
    }
    return &found->second;
  }

  const std::shared_ptr<Queue> queue_;
  const cudaStream_t stream_;
  const std::string name_;
  const int multiprocessors_;
  DeviceHealth health_;
  const std::unique_ptr<CudaUploads> uploads_, uploads_beside_;
  const CublasLt lt_;
  // Products of one shape may share memory of their own: also held while one is queued.
  std::mutex gemm_mutex_;
  std::map<GemmShape, GemmCuda> gemms_;
};

// By default the pool gives all that is free back to the driver whenever somebody waits, and every
// step would ask for it again.
absl::Status KeepFreedMemory(int index) {
  cudaMemPool_t pool = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaDeviceGetDefaultMemPool(&pool, index), "memory pool"));
  auto kept_bytes = std::numeric_limits<uint64_t>::max();
  return CudaStatus(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept_bytes),
                    "memory pool");
}

// A device that this build has no code for says so at the first launch, and not before.
absl::Status RunOneKernel(Device& device) {
  const auto run = [&]() -> absl::Status {
    float sum = -1;
    ASSIGN_OR_RETURN(const std::shared_ptr<DeviceBuffer> memory, device.Allocate(sizeof(sum)));
    auto* const numbers = static_cast<float*>(memory->data());
    RETURN_IF_ERROR(device.Zero(numbers, sizeof(sum)));
    RETURN_IF_ERROR(device.Add(numbers, 1, numbers));
    RETURN_IF_ERROR(device.Download(numbers, sizeof(sum), &sum));
    return sum == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("0 + 0 = ", sum));
  };
  const absl::Status status = run();
  if (status.ok()) return status;
  return absl::UnavailableError(
      absl::StrCat(device.name(), " does not run this build's kernels: ", status.message()));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(int index) {
  ASSIGN_OR_RETURN(const cudaDeviceProp properties, CudaProperties(index));
  RETURN_IF_ERROR(UseCudaDevice(index));
  RETURN_IF_ERROR(KeepFreedMemory(index));
  auto queue = std::make_shared<Queue>();
  queue->index = index;
  ASSIGN_OR_RETURN(queue->stream, CreateStream());
  ASSIGN_OR_RETURN(queue->uploads, CreateStream());
  ASSIGN_OR_RETURN(CublasLt lt, CublasLt::Create());
  ASSIGN_OR_RETURN(std::unique_ptr<CudaUploads> uploads, CudaUploads::Create());
  ASSIGN_OR_RETURN(std::unique_ptr<CudaUploads> uploads_beside, CudaUploads::Create());
  auto device = std::make_shared<CudaDevice>(std::move(queue), properties, std::move(lt),
                                             std::move(uploads), std::move(uploads_beside));
  RETURN_IF_ERROR(RunOneKernel(*device));
  return device;
}

}  // namespace recollect::kernels
