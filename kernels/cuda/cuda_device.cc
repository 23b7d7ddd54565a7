#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/status.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/cuda/cuda_operations.h"
#include "kernels/cuda/cuda_uploads.h"
#include "kernels/device/device_health.h"
#include "kernels/device/packed_arrays.h"
#include "kernels/gemm/cublaslt.h"

namespace recollect::kernels {
namespace {

// Of a copy from or to the host that others would wait for.
constexpr int64_t kLongBytes = int64_t{1} << 20;

// What a device and its buffers share: the last of them takes it along.
struct Streams {
  int index = 0;
  CudaStream stream;   // operations
  CudaStream uploads;  // copies beside them
};

class CudaBuffer final : public DeviceBuffer {
 public:
  CudaBuffer(std::shared_ptr<Streams> streams, void* data, int64_t bytes)
      : DeviceBuffer(data, bytes), streams_(std::move(streams)) {}
  // On a lost device nothing can be given back, and nobody asks for it.
  ~CudaBuffer() override {
    (void)UseCudaDevice(streams_->index);
    if (cudaFreeAsync(data(), streams_->stream.get()) != cudaSuccess) (void)cudaGetLastError();
  }

 private:
  const std::shared_ptr<Streams> streams_;
};

// One that a copy beside the operations fills. It may go before that has run, or before operations
// that read it have: it waits for both where its memory is given back, among the operations.
struct CudaComing {
  CudaComing(std::shared_ptr<Streams> of, void* memory, CudaEvent event)
      : streams(std::move(of)), data(memory), copied(std::move(event)) {}
  CudaComing(const CudaComing&) = delete;
  CudaComing& operator=(const CudaComing&) = delete;
  ~CudaComing() {
    (void)UseCudaDevice(streams->index);
    const cudaStream_t stream = streams->stream.get();
    const bool given = cudaStreamWaitEvent(stream, copied.get(), 0) == cudaSuccess &&
                       cudaFreeAsync(data, stream) == cudaSuccess;
    if (!given) (void)cudaGetLastError();
  }
  const std::shared_ptr<Streams> streams;
  void* const data;
  const CudaEvent copied;
};

// Part of a coming memory, all of it or one of several arrays.
class CudaComingBuffer final : public DeviceBuffer {
 public:
  CudaComingBuffer(std::shared_ptr<const CudaComing> memory, int64_t offset, int64_t bytes)
      : DeviceBuffer(static_cast<std::byte*>(memory->data) + offset, bytes),
        memory_(std::move(memory)) {}
  cudaEvent_t copied() const { return memory_->copied.get(); }

 private:
  const std::shared_ptr<const CudaComing> memory_;
};

struct CudaGraph final : DeviceGraph {
  explicit CudaGraph(std::shared_ptr<Streams> of) : streams(std::move(of)) {}
  ~CudaGraph() override { (void)UseCudaDevice(streams->index); }
  const std::shared_ptr<Streams> streams;
  CudaGraphExec executable;
};

// Choices of products that earlier starts made on this kind of device.
GemmChoices ChoicesOf(const cudaDeviceProp& properties) {
  const std::string kind =
      absl::StrCat(properties.name, ", ", properties.major, ".", properties.minor);
  const size_t library = cublasLtGetVersion();
  return {GemmChoicesPath(kind, library), kind, library};
}

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<Streams> streams, const cudaDeviceProp& properties, CublasLt lt,
             std::unique_ptr<CudaUploads> uploads, std::unique_ptr<CudaUploads> long_uploads,
             std::unique_ptr<CudaUploads> async_uploads)
      : streams_(std::move(streams)),
        stream_(streams_->stream.get()),
        name_(absl::StrCat("cuda:", streams_->index, " ", properties.name)),
        multiprocessors_(properties.multiProcessorCount),
        uploads_(std::move(uploads)),
        long_uploads_(std::move(long_uploads)),
        async_uploads_(std::move(async_uploads)),
        products_(std::move(lt), ChoicesOf(properties)) {}
  // Work that is queued reads pinned memory and the products' own.
  ~CudaDevice() override {
    (void)UseCudaDevice(streams_->index);
    (void)cudaStreamSynchronize(stream_);
    (void)cudaStreamSynchronize(streams_->uploads.get());
    products_.Clear();
  }

  std::string name() const override { return name_; }
  absl::Status health() const override { return health_.status(); }
  // What the pool keeps for its next buffers is free as well.
  DeviceRoom room() const override {
    cudaMemPool_t pool = nullptr;
    size_t free_bytes = 0, total_bytes = 0;
    uint64_t reserved = 0, used = 0;
    const bool known =
        health_.status().ok() && UseCudaDevice(streams_->index).ok() &&
        cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess &&
        cudaDeviceGetDefaultMemPool(&pool, streams_->index) == cudaSuccess &&
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
    return std::make_shared<CudaBuffer>(streams_, data, bytes);
  }
  // What is long has memory of its own: a table of the next step does not wait in its line.
  absl::Status Upload(const void* host, int64_t bytes, void* to) override {
    CudaUploads& by_way_of = bytes > kLongBytes ? *long_uploads_ : *uploads_;
    return Do([&] { return by_way_of.Queue(stream_, host, bytes, to); });
  }
  // In pieces, between which other threads' operations run: a whole cache takes seconds.
  absl::Status Download(const void* from, int64_t bytes, void* host) override {
    return Do([&] {
      for (int64_t done = 0; done < bytes; done += kLongBytes) {
        const int64_t piece = std::min(bytes - done, kLongBytes);
        RETURN_IF_ERROR(
            CudaStatus(cudaMemcpyAsync(static_cast<std::byte*>(host) + done,
                                       static_cast<const std::byte*>(from) + done,
                                       static_cast<size_t>(piece), cudaMemcpyDeviceToHost, stream_),
                       "download"));
        RETURN_IF_ERROR(Synchronize());
      }
      return absl::OkStatus();
    });
  }
  absl::Status Wait() override {
    return Do([&] { return Synchronize(); });
  }
  absl::StatusOr<std::shared_ptr<DeviceBuffer>> UploadAsync(const void* host,
                                                            int64_t bytes) override {
    const std::span<const std::byte> array(static_cast<const std::byte*>(host),
                                           static_cast<size_t>(bytes));
    ASSIGN_OR_RETURN(const auto coming, UploadAllAsync({&array, 1}));
    return coming.front();
  }
  absl::StatusOr<std::vector<std::shared_ptr<DeviceBuffer>>> UploadAllAsync(
      std::span<const std::span<const std::byte>> arrays) override {
    std::vector<std::shared_ptr<DeviceBuffer>> buffers;
    if (arrays.empty()) return buffers;
    const PackedArrays packed(arrays);
    std::shared_ptr<const CudaComing> memory;
    const absl::Status status = Do([&]() -> absl::Status {
      const cudaStream_t stream = streams_->uploads.get();
      ASSIGN_OR_RETURN(CudaEvent copied, CreateEvent());
      void* data = nullptr;
      RETURN_IF_ERROR(AllocateOn(stream, packed.bytes(), &data));
      // Before its first record an event counts as done: then it holds up nobody.
      memory = std::make_shared<CudaComing>(streams_, data, std::move(copied));
      absl::Status queued = async_uploads_->Queue(stream, packed, data);
      RETURN_IF_ERROR(CudaStatus(cudaEventRecord(memory->copied.get(), stream), "upload"));
      return queued;
    });
    if (!status.ok()) return status;
    for (size_t i = 0; i < arrays.size(); ++i) {
      buffers.push_back(
          std::make_shared<CudaComingBuffer>(memory, packed.offset(i), std::ssize(arrays[i])));
    }
    return buffers;
  }
  absl::Status Await(const DeviceBuffer& coming) override {
    return Do([&] {
      const cudaEvent_t copied = static_cast<const CudaComingBuffer&>(coming).copied();
      return CudaStatus(cudaStreamWaitEvent(stream_, copied, 0), "upload");
    });
  }
  absl::Status Run(const Operation& operation) override {
    return Do([&] { return Queue(stream_, products_, operation); });
  }
  absl::Status PrepareGemm(const GemmShape& shape) override {
    return Do([&] { return products_.Prepare(shape); });
  }

  // On a stream of its own, which never runs anything: other threads' operations do not end up in
  // the graph.
  absl::StatusOr<std::shared_ptr<DeviceGraph>> Capture(
      std::span<const Operation> operations) override {
    auto graph = std::make_shared<CudaGraph>(streams_);
    const absl::Status status = Do([&]() -> absl::Status {
      ASSIGN_OR_RETURN(const CudaStream stream, CreateStream());
      const auto queue = [&]() -> absl::Status {
        for (const Operation& operation : operations) {
          RETURN_IF_ERROR(Queue(stream.get(), products_, operation));
        }
        return absl::OkStatus();
      };
      ASSIGN_OR_RETURN(graph->executable, CaptureGraph(stream.get(), queue));
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return graph;
  }
  absl::Status Launch(const DeviceGraph& graph) override {
    return Do([&] {
      const CudaGraphExec& executable = static_cast<const CudaGraph&>(graph).executable;
      return CudaStatus(cudaGraphLaunch(executable.get(), stream_), "graph");
    });
  }

 private:
  template <typename Call>
  absl::Status Do(Call call) {
    return health_.Run([&] {
      RETURN_IF_ERROR(UseCudaDevice(streams_->index));
      absl::Status status = call();
      return status.ok() ? status : Judged(std::move(status));
    });
  }
  absl::Status Synchronize() { return CudaStatus(cudaStreamSynchronize(stream_), "operations"); }
  static absl::Status AllocateOn(cudaStream_t stream, int64_t bytes, void** data) {
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

  const std::shared_ptr<Streams> streams_;
  const cudaStream_t stream_;
  const std::string name_;
  const int multiprocessors_;
  DeviceHealth health_;
  const std::unique_ptr<CudaUploads> uploads_, long_uploads_, async_uploads_;
  CudaGemms products_;
};

// By default the pool gives all that is free back to the driver whenever somebody waits, and every
// step would ask for it again. A sixteenth of the device it does give back: code that is loaded at
// its first launch, graphs and products take their memory from the driver.
absl::Status KeepFreedMemory(int index, uint64_t total_bytes) {
  cudaMemPool_t pool = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaDeviceGetDefaultMemPool(&pool, index), "memory pool"));
  uint64_t kept_bytes = total_bytes / 16 * 15;
  return CudaStatus(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept_bytes),
                    "memory pool");
}

// A device that this build has no code for says so at the first launch, and not before.
absl::Status RunOneKernel(Device& device) {
  const auto run = [&]() -> absl::Status {
    float sum = -1;
    ASSIGN_OR_RETURN(const std::shared_ptr<DeviceBuffer> memory, device.Allocate(sizeof(sum)));
    auto* const numbers = static_cast<float*>(memory->data());
    RETURN_IF_ERROR(device.Run(ZeroOp{numbers, sizeof(sum)}));
    RETURN_IF_ERROR(device.Run(AddOp{numbers, 1, numbers}));
    RETURN_IF_ERROR(device.Download(numbers, sizeof(sum), &sum));
    return sum == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("0 + 0 = ", sum));
  };
  absl::Status status = run();
  if (status.ok()) return status;
  return absl::UnavailableError(
      absl::StrCat(device.name(), " does not run this build's kernels: ", status.message()));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(int index) {
  ASSIGN_OR_RETURN(const cudaDeviceProp properties, CudaProperties(index));
  RETURN_IF_ERROR(UseCudaDevice(index));
  RETURN_IF_ERROR(KeepFreedMemory(index, properties.totalGlobalMem));
  auto streams = std::make_shared<Streams>();
  streams->index = index;
  ASSIGN_OR_RETURN(streams->stream, CreateStream());
  ASSIGN_OR_RETURN(streams->uploads, CreateStream());
  ASSIGN_OR_RETURN(CublasLt lt, CublasLt::Create());
  ASSIGN_OR_RETURN(std::unique_ptr<CudaUploads> uploads, CudaUploads::Create());
  ASSIGN_OR_RETURN(std::unique_ptr<CudaUploads> long_uploads, CudaUploads::Create());
  ASSIGN_OR_RETURN(std::unique_ptr<CudaUploads> async_uploads, CudaUploads::Create());
  auto device = std::make_shared<CudaDevice>(std::move(streams), properties, std::move(lt),
                                             std::move(uploads), std::move(long_uploads),
                                             std::move(async_uploads));
  RETURN_IF_ERROR(RunOneKernel(*device));
  return device;
}

}  // namespace recollect::kernels
