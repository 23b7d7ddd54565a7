#include "tests/kernels/device/host_device.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

template <typename Kind>
absl::StatusOr<std::shared_ptr<Kind>> HostDevice::Make(int64_t bytes) {
  std::shared_ptr<Kind> buffer;
  RETURN_IF_ERROR(Do([&] {
    if (live_->bytes + bytes > most_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          bytes, " bytes of device memory, ", this->bytes(), " are used of ", most_bytes_.load()));
    }
    buffer = std::make_shared<Kind>(live_, bytes);
    return absl::OkStatus();
  }));
  return buffer;
}

// Calls of all threads one after the other.
template <typename Call>
absl::Status HostDevice::Do(Call call) {
  std::lock_guard<std::mutex> lock(mutex_);
  return health_.Run([&] {
    if (calls_left_-- <= 0) return absl::UnavailableError("the test has lost the device");
    return call();
  });
}

absl::Status HostDevice::Move(const void* from, int64_t bytes, void* to) {
  return Do([&] {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::shared_ptr<DeviceBuffer>> HostDevice::Allocate(int64_t bytes) {
  return Make<Buffer>(bytes);
}

absl::Status HostDevice::Upload(const void* host, int64_t bytes, void* to) {
  return Move(host, bytes, to);
}

absl::Status HostDevice::Download(const void* from, int64_t bytes, void* host) {
  ++downloads_;
  downloaded_bytes_ += bytes;
  return Move(from, bytes, host);
}

absl::Status HostDevice::Wait() {
  ++waits_;
  return health_.status();
}

absl::StatusOr<std::shared_ptr<DeviceBuffer>> HostDevice::UploadAsync(const void* host,
                                                                      int64_t bytes) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ComingBuffer> buffer, Make<ComingBuffer>(bytes));
  buffer->coming.resize(static_cast<size_t>(bytes));
  ++async_uploads_;
  RETURN_IF_ERROR(Move(host, bytes, buffer->coming.data()));
  return buffer;
}

absl::Status HostDevice::Await(const DeviceBuffer& coming) {
  const auto& bytes = static_cast<const ComingBuffer&>(coming).coming;
  return Move(bytes.data(), coming.bytes(), coming.data());
}

absl::StatusOr<std::shared_ptr<DeviceGraph>> HostDevice::Capture(
    std::span<const Operation> operations) {
  RETURN_IF_ERROR(captures_);
  auto graph = std::make_shared<Graph>();
  graph->operations.assign(operations.begin(), operations.end());
  return graph;
}

absl::Status HostDevice::Launch(const DeviceGraph& graph) {
  ++launches_;
  return RunAll(*this, static_cast<const Graph&>(graph).operations);
}

absl::Status HostDevice::Run(const Operation& operation) {
  return Do(
      [&] { return std::visit([&](const auto& op) { return OnHost(order_, op); }, operation); });
}

absl::Status HostDevice::PrepareGemm(const GemmShape& shape) {
  return Do([&] { return CheckGemmShape(shape); });
}

}  // namespace recollect::kernels
