// The interface of a device: its memory and the operations of a model's step (used by
// model/device/device_model.h). cuda_device.h queues them on a stream of a GPU; tests without a GPU
// run the same thread blocks on the host (tests/kernels/device/host_device.h).
//
// Calls take effect in their order; all but Download and Wait may return before their work is done.
// Thread-safe; calls that depend on each other's order come from one thread. RESOURCE_EXHAUSTED:
// out of memory; the device remains usable. UNAVAILABLE: the device is lost, and every later call
// returns this status.
#ifndef RECOLLECT_KERNELS_DEVICE_DEVICE_H_
#define RECOLLECT_KERNELS_DEVICE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device_operations.h"

namespace recollect::kernels {

// Memory that begins at a multiple of 256 bytes. May be destroyed before the work that reads or
// writes it is done, and after the device.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 protected:
  DeviceBuffer(void* data, int64_t bytes) : data_(data), bytes_(bytes) {}

 private:
  void* const data_;
  const int64_t bytes_;
};

struct DeviceRoom {
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};

// Operations that can be launched repeatedly as one. May be destroyed before a launch's work is
// done.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};
using CapturedOperations = std::function<absl::Status(DeviceOperations& operations)>;

class Device : public DeviceOperations {
 public:
  virtual std::string name() const = 0;     // "cuda:0 NVIDIA H200"
  virtual absl::Status health() const = 0;  // UNAVAILABLE, like later calls, once it is lost
  virtual DeviceRoom room() const = 0;      // at this moment; zeros once it is lost
  virtual int multiprocessors() const = 0;  // for which plans are made

  // A zero-byte allocation returns a non-null address.
  virtual absl::StatusOr<std::shared_ptr<DeviceBuffer>> Allocate(int64_t bytes) = 0;
  virtual absl::Status Upload(const void* host, int64_t bytes, void* to) = 0;
  virtual absl::Status Download(const void* from, int64_t bytes, void* host) = 0;
  // Returns when the work of all earlier operations is done.
  virtual absl::Status Wait() = 0;
  // Allocates memory and begins to copy host[bytes] to it, concurrently with the operations. May be
  // called from any thread and is not part of the order of calls; operations may read the memory
  // after Await.
  virtual absl::StatusOr<std::shared_ptr<DeviceBuffer>> UploadAsync(const void* host,
                                                                    int64_t bytes) = 0;
  // Operations queued later wait for the copy to `coming`, which UploadAsync returned. The call
  // itself does not wait.
  virtual absl::Status Await(const DeviceBuffer& coming) = 0;
  // Prepares products of this shape now instead of in its first Gemm.
  virtual absl::Status PrepareGemm(const GemmShape& shape) = 0;

  // Records the calls that `operations` makes on its argument, and runs none of them. May be called
  // from any thread, concurrently with operations. The device may call `operations` again as long
  // as the graph exists, so it must own what it uses. Returns the status of `operations` if it
  // fails; UNIMPLEMENTED if the device has no graphs.
  virtual absl::StatusOr<std::shared_ptr<DeviceGraph>> Capture(
      const CapturedOperations& operations) = 0;
  // Runs the graph in order with the other operations, on the contents that memory has by then.
  virtual absl::Status Launch(const DeviceGraph& graph) = 0;
};

// Returns the memory of `buffer`, which is kept between calls, with at least `bytes` bytes. A
// buffer that is too small is replaced by one of 1.5 times `bytes`, and its contents are lost.
inline absl::StatusOr<void*> AtLeast(Device& device, int64_t bytes,
                                     std::shared_ptr<DeviceBuffer>& buffer) {
  if (buffer == nullptr || buffer->bytes() < bytes) {
    buffer = nullptr;
    absl::StatusOr<std::shared_ptr<DeviceBuffer>> grown = device.Allocate(bytes + bytes / 2);
    if (!grown.ok()) return grown.status();
    buffer = *std::move(grown);
  }
  return buffer->data();
}

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_DEVICE_DEVICE_H_
