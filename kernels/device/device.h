// The interface of a device: its memory, and the operations of a model's step (operation.h).
// cuda_device.h queues them on a stream of a GPU; tests without a GPU run the same thread blocks on
// the host (tests/kernels/device/host_device.h).
//
// Calls take effect in their order; all but Download and Wait may return before their work is done.
// Thread-safe; calls that depend on each other's order come from one thread. RESOURCE_EXHAUSTED:
// out of memory; the device remains usable. UNAVAILABLE: the device is lost, and every later call
// returns this status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "kernels/device/operation.h"

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

class Device {
 public:
  virtual ~Device() = default;

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
  // The same for several arrays, which a device may copy at once; buffer i is for array i. They may
  // share memory, which is freed with the last of them.
  virtual absl::StatusOr<std::vector<std::shared_ptr<DeviceBuffer>>> UploadAllAsync(
      std::span<const std::span<const std::byte>> arrays) {
    std::vector<std::shared_ptr<DeviceBuffer>> coming;
    for (const std::span<const std::byte> array : arrays) {
      ASSIGN_OR_RETURN(coming.emplace_back(), UploadAsync(array.data(), std::ssize(array)));
    }
    return coming;
  }
  // Operations queued later wait for the copy to `coming`, which these two returned. The call
  // itself does not wait.
  virtual absl::Status Await(const DeviceBuffer& coming) = 0;
  virtual absl::Status Run(const Operation& operation) = 0;
  // Prepares products of this shape, which takes long; else the shape's first GemmOp does.
  virtual absl::Status PrepareGemm(const GemmShape& shape) = 0;

  // Makes a graph of these operations, and runs none of them. May be called from any thread,
  // concurrently with operations. Statuses of the operations, unless the first launch returns them;
  // UNIMPLEMENTED if the device has no graphs.
  virtual absl::StatusOr<std::shared_ptr<DeviceGraph>> Capture(
      std::span<const Operation> operations) = 0;
  // Runs the graph in order with the other operations, on the contents that memory has by then.
  virtual absl::Status Launch(const DeviceGraph& graph) = 0;
};

// Runs them one by one, up to the first error.
inline absl::Status RunAll(Device& device, std::span<const Operation> operations) {
  for (const Operation& operation : operations) RETURN_IF_ERROR(device.Run(operation));
  return absl::OkStatus();
}

// Returns the memory of `buffer`, which is kept between calls, with at least `bytes` bytes. A
// buffer that is too small is replaced by one of 1.5 times `bytes`, and its contents are lost.
inline absl::StatusOr<void*> AtLeast(Device& device, int64_t bytes,
                                     std::shared_ptr<DeviceBuffer>& buffer) {
  if (buffer == nullptr || buffer->bytes() < bytes) {
    buffer = nullptr;
    ASSIGN_OR_RETURN(buffer, device.Allocate(bytes + bytes / 2));
  }
  return buffer->data();
}

}  // namespace recollect::kernels
