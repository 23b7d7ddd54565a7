#include "engine/cuda_landmarks.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"
#include "engine/planned_landmarks.h"
#include "kernels/cuda_memory.h"
#include "kernels/landmark_topk_cuda.h"

namespace recollect::engine {
namespace {

using kernels::CudaDeviceGuard;
using kernels::CudaStatus;

// Memory that is kept from call to call and grows.
template <typename Owner>
struct Scratch {
  Owner memory;
  int64_t bytes = 0;

  template <typename Allocate>
  absl::StatusOr<std::byte*> AtLeast(int64_t needed, Allocate allocate) {
    if (needed > bytes) {
      memory.reset();
      bytes = 0;
      ASSIGN_OR_RETURN(memory, allocate(2 * needed));
      bytes = 2 * needed;
    }
    return static_cast<std::byte*>(memory.get());
  }
};

class CudaLandmarks final : public PlannedLandmarks {
 public:
  CudaLandmarks(int index, std::string name, int multiprocessors, kernels::CudaStream search,
                kernels::CudaStream load)
      : PlannedLandmarks(multiprocessors),
        index_(index),
        name_(std::move(name)),
        search_(std::move(search)),
        load_(std::move(load)) {}
  std::string name() const override { return name_; }

 protected:
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(int64_t numbers) override {
    const CudaDeviceGuard guard(index_);
    RETURN_IF_ERROR(guard.status());
    ASSIGN_OR_RETURN(kernels::DeviceMemory memory,
                     kernels::AllocateDevice(numbers * int64_t{sizeof(Bf16)}));
    return std::make_unique<OnDevice>(index_, std::move(memory));
  }
  absl::Status Upload(std::span<const Bf16> from, Bf16* to) override {
    return Copy(from.data(), from.size_bytes(), to, cudaMemcpyHostToDevice);
  }
  absl::Status CopyWithin(const Bf16* from, int64_t count, Bf16* to) override {
    return Copy(from, static_cast<size_t>(count) * sizeof(Bf16), to, cudaMemcpyDeviceToDevice);
  }
  absl::Status Run(std::span<const Launch> launches, std::span<const std::byte> in,
                   std::span<std::byte> out) override;

 private:
  class OnDevice final : public Memory {
   public:
    OnDevice(int index, kernels::DeviceMemory memory) : index_(index), memory_(std::move(memory)) {}
    ~OnDevice() override {
      const CudaDeviceGuard guard(index_);
      memory_.reset();
    }
    Bf16* data() override { return static_cast<Bf16*>(memory_.get()); }

   private:
    const int index_;
    kernels::DeviceMemory memory_;
  };

  absl::Status Copy(const void* from, size_t bytes, void* to, cudaMemcpyKind kind) {
    const CudaDeviceGuard guard(index_);
    RETURN_IF_ERROR(guard.status());
    std::lock_guard<std::mutex> lock(load_mutex_);
    RETURN_IF_ERROR(
        CudaStatus(cudaMemcpyAsync(to, from, bytes, kind, load_.get()), "landmark keys"));
    return CudaStatus(cudaStreamSynchronize(load_.get()), "landmark keys");
  }

  const int index_;
  const std::string name_;
  const kernels::CudaStream search_, load_;
  std::mutex load_mutex_;
  // Of Run.
  Scratch<kernels::PinnedMemory> in_host_, out_host_;
  Scratch<kernels::DeviceMemory> in_device_, out_device_, workspace_;
};

absl::Status CudaLandmarks::Run(std::span<const Launch> launches, std::span<const std::byte> in,
                                std::span<std::byte> out) {
  const CudaDeviceGuard guard(index_);
  RETURN_IF_ERROR(guard.status());
  // Launches follow each other on the stream: one workspace does for all.
  int64_t workspace_bytes = 1;
  for (const Launch& launch : launches) {
    workspace_bytes = std::max(workspace_bytes, launch.plan.workspace_bytes);
  }
  const auto in_bytes = static_cast<int64_t>(in.size()),
             out_bytes = static_cast<int64_t>(out.size());
  ASSIGN_OR_RETURN(std::byte* const in_host, in_host_.AtLeast(in_bytes, kernels::AllocatePinned));
  ASSIGN_OR_RETURN(std::byte* const out_host,
                   out_host_.AtLeast(out_bytes, kernels::AllocatePinned));
  ASSIGN_OR_RETURN(std::byte* const in_device,
                   in_device_.AtLeast(in_bytes, kernels::AllocateDevice));
  ASSIGN_OR_RETURN(std::byte* const out_device,
                   out_device_.AtLeast(out_bytes, kernels::AllocateDevice));
  ASSIGN_OR_RETURN(std::byte* const workspace,
                   workspace_.AtLeast(workspace_bytes, kernels::AllocateDevice));

  std::memcpy(in_host, in.data(), in.size());
  RETURN_IF_ERROR(CudaStatus(
      cudaMemcpyAsync(in_device, in_host, in.size(), cudaMemcpyHostToDevice, search_.get()),
      "landmark queries"));
  for (const Launch& launch : launches) {
    RETURN_IF_ERROR(kernels::LandmarkTopKCuda(
        search_.get(), launch.plan, reinterpret_cast<const float*>(in_device + launch.queries),
        reinterpret_cast<const kernels::SegmentStart*>(in_device + launch.segments), workspace,
        {reinterpret_cast<int64_t*>(out_device + launch.candidates),
         reinterpret_cast<float*>(out_device + launch.scores)}));
  }
  RETURN_IF_ERROR(CudaStatus(
      cudaMemcpyAsync(out_host, out_device, out.size(), cudaMemcpyDeviceToHost, search_.get()),
      "found landmarks"));
  RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(search_.get()), "landmark search"));
  std::memcpy(out.data(), out_host, out.size());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<LandmarkDevice>> OpenCudaLandmarks(int index) {
  ASSIGN_OR_RETURN(const cudaDeviceProp properties, kernels::CudaProperties(index));
  const CudaDeviceGuard guard(index);
  RETURN_IF_ERROR(guard.status());
  ASSIGN_OR_RETURN(kernels::CudaStream search, kernels::CreateStream());
  ASSIGN_OR_RETURN(kernels::CudaStream load, kernels::CreateStream());
  return std::make_shared<CudaLandmarks>(index, absl::StrCat("cuda:", index, " ", properties.name),
                                         properties.multiProcessorCount, std::move(search),
                                         std::move(load));
}

}  // namespace recollect::engine
