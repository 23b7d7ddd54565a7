// Whether a device is lost: one that failed with UNAVAILABLE once is not asked again, and says to
// everybody what it said then. For those who implement kernels/device.h.
//   return health_.Run([&] { return Launch(…); });
#ifndef RECOLLECT_KERNELS_DEVICE_HEALTH_H_
#define RECOLLECT_KERNELS_DEVICE_HEALTH_H_

#include <mutex>

#include "absl/status/status.h"
#include "base/status.h"

namespace recollect::kernels {

// Thread-safe; functions run side by side.
class DeviceHealth {
 public:
  // What `call()` returns, unless the device is lost, before it or by it.
  template <typename Call>
  absl::Status Run(Call call) {
    RETURN_IF_ERROR(status());
    return Note(call());
  }

  // What it was lost with; OK: it is not.
  absl::Status status() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return lost_;
  }

 private:
  absl::Status Note(absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (lost_.ok() && absl::IsUnavailable(status)) lost_ = status;
    return lost_.ok() ? status : lost_;
  }

  mutable std::mutex mutex_;
  absl::Status lost_;
};

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_DEVICE_HEALTH_H_
