// The operations of a model's step on a device, and its memory: what model/device_model.h is
// written in. cuda_device.h queues them on a stream of a GPU; a test without one runs the same
// thread blocks on the host (tests/kernels/host_device.h).
//
// Calls take effect in their order, one after the other; all but Download and Wait may return
// before their work is done. Thread-safe; operations of one sequence of calls come from one thread.
// RESOURCE_EXHAUSTED: out of memory, the device goes on. UNAVAILABLE: it is lost, and every later
// call says so.
#ifndef RECOLLECT_KERNELS_DEVICE_H_
#define RECOLLECT_KERNELS_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device_operations.h"

namespace recollect::kernels {

// Memory at a multiple of 256 bytes. May go before the work that reads or writes it is done, and
// after the device.
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

// Operations to be run again and again as one. May go before the work of a launch is done.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};
using CapturedOperations = std::function<absl::Status(DeviceOperations& operations)>;

class Device : public DeviceOperations {
 public:
  virtual std::string name() const = 0;     // "cuda:0 NVIDIA H200"
  virtual absl::Status health() const = 0;  // UNAVAILABLE, as later calls, once it is lost
  virtual DeviceRoom room() const = 0;      // as it is just now; zeros once it is lost
  virtual int multiprocessors() const = 0;  // what plans are made for

  // No bytes have an address, too.
  virtual absl::StatusOr<std::shared_ptr<DeviceBuffer>> Allocate(int64_t bytes) = 0;
  virtual absl::Status Upload(const void* host, int64_t bytes, void* to) = 0;
  virtual absl::Status Download(const void* from, int64_t bytes, void* host) = 0;
  // Returns when the work of the operations so far is done.
  virtual absl::Status Wait() = 0;
  // New memory, and the beginning of a copy of host[bytes] to it, which runs beside the operations.
  // From any thread, out of the order of calls; operations may read it after Await.
  virtual absl::StatusOr<std::shared_ptr<DeviceBuffer>> UploadBeside(const void* host,
                                                                     int64_t bytes) = 0;
  // Later operations find in `coming`, of UploadBeside, what was copied. Does not wait itself.
  virtual absl::Status Await(const DeviceBuffer& coming) = 0;
  // Now, and not in the first Gemm of the shape.
  virtual absl::Status PrepareGemm(const GemmShape& shape) = 0;

  // Keeps what `operations` calls of the operations it is given, with these arguments, and runs
  // nothing. From any thread, beside the operations. It may be called later, too, as long as the
  // graph is there: it owns what it uses. Fails as it does; UNIMPLEMENTED where there are no
  // graphs.
  virtual absl::StatusOr<std::shared_ptr<DeviceGraph>> Capture(
      const CapturedOperations& operations) = 0;
  // Runs that in its place among the operations, with what memory holds by then.
  virtual absl::Status Launch(const DeviceGraph& graph) = 0;
};

// Memory that is kept from call to call: `buffer`, of at least `bytes`. When it has to grow, what
// it held is lost, and half as much again is taken.
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

#endif  // RECOLLECT_KERNELS_DEVICE_H_
