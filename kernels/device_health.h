// Whether a device is lost: one that failed with UNAVAILABLE once is not asked again, and says to
// everybody what it said then. For those who implement kernels/device.h.
//   return health_.Run([&] { return Launch(…); });
#ifndef RECOLLECT_KERNELS_DEVICE_HEALTH_H_
#define RECOLLECT_KERNELS_DEVICE_HEALTH_H_

#include <mutex>

#include "absl/status/status.h"

namespace recollect::kernels {

// Thread-safe; functions run side by side.
class DeviceHealth {
 public:
  // What `call()` returns, unless the device is lost, before it or by it.
  template <typename Call>
  absl::Status Run(Call call) {
    if (absl::Status lost = Note(absl::OkStatus()); !lost.ok()) return lost;
    return Note(call());
  }

 private:
  absl::Status Note(absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (lost_.ok() && absl::IsUnavailable(status)) lost_ = status;
    return lost_.ok() ? status : lost_;
  }

  std::mutex mutex_;
  absl::Status lost_;
};

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_DEVICE_HEALTH_H_
