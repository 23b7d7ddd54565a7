// Asynchronous copies of host memory to a CUDA device, through pinned memory: one half of it is
// filled while the other half is copied to the device.
//   ASSIGN_OR_RETURN(auto uploads, CudaUploads::Create());
//   RETURN_IF_ERROR(uploads->Queue(stream, host, bytes, to));
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/status.h"
#include "base/sync/mutex.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/device/packed_arrays.h"

namespace recollect::kernels {

// Thread-safe. For one stream, whose copies must be done before the object is destroyed. Statuses
// of kernels/cuda/cuda_status.h.
class CudaUploads {
 public:
  // For the current device.
  static absl::StatusOr<std::unique_ptr<CudaUploads>> Create() {
    auto uploads = std::make_unique<CudaUploads>();
    for (Half& half : uploads->halves_) {
      ASSIGN_OR_RETURN(half.memory, AllocatePinned(kHalfBytes));
      ASSIGN_OR_RETURN(half.copied, CreateEvent());
    }
    return uploads;
  }

  // host[bytes] may change when the call returns; `to` is device memory, borrowed until the work
  // queued here on `stream` is done. Waits while both halves are full of data that is not copied
  // yet.
  absl::Status Queue(cudaStream_t stream, const void* host, int64_t bytes, void* to) {
    const std::span<const std::byte> array(static_cast<const std::byte*>(host),
                                           static_cast<size_t>(bytes));
    return Queue(stream, PackedArrays({&array, 1}), to);
  }
  // The same for several arrays in their layout, in one copy for each kPieceBytes of all of them.
  absl::Status Queue(cudaStream_t stream, const PackedArrays& arrays, void* to) {
    for (int64_t done = 0, bytes = arrays.bytes(); done < bytes;) {
      MutexLock lock(mutex_);  // not for long: others have little to upload
      if (used_ == kHalfBytes) RETURN_IF_ERROR(FillOther(stream));
      const int64_t piece = std::min({bytes - done, kHalfBytes - used_, kPieceBytes});
      std::byte* const pinned = static_cast<std::byte*>(halves_[filled_].memory.get()) + used_;
      arrays.Copy(done, done + piece, pinned);
      RETURN_IF_ERROR(
          CudaStatus(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, pinned,
                                     static_cast<size_t>(piece), cudaMemcpyHostToDevice, stream),
                     "upload"));
      done += piece;
      used_ += (piece + kAlignment - 1) / kAlignment * kAlignment;
    }
    return absl::OkStatus();
  }

 private:
  // A decode step uploads some kilobytes, so a half holds the uploads of hundreds of steps; weights
  // are uploaded in pieces of this size.
  static constexpr int64_t kHalfBytes = int64_t{8} << 20;
  static constexpr int64_t kPieceBytes = int64_t{1} << 20;
  static constexpr int64_t kAlignment = 256;

  struct Half {
    PinnedMemory memory;
    CudaEvent copied;  // recorded when the half was full
  };

  absl::Status FillOther(cudaStream_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    RETURN_IF_ERROR(CudaStatus(cudaEventRecord(halves_[filled_].copied.get(), stream), "upload"));
    filled_ = 1 - filled_;
    // An event that was never recorded counts as done.
    RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(halves_[filled_].copied.get()), "upload"));
    used_ = 0;
    return absl::OkStatus();
  }

  Mutex mutex_;
  std::array<Half, 2> halves_;
  size_t filled_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of that half, a multiple of kAlignment
};

}  // namespace recollect::kernels
