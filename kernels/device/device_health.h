// Whether a device is lost: after a device has failed with UNAVAILABLE once, it is not called
// again, and every later call returns that status. For implementations of kernels/device/device.h.
//   return health_.Run([&] { return Launch(…); });
#pragma once

#include "absl/status/status.h"
#include "base/status.h"
#include "base/sync/mutex.h"

namespace recollect::kernels {

// Thread-safe; calls run concurrently.
class DeviceHealth {
 public:
  // Returns call()'s status, or the status with which the device was lost if that happened before
  // or during the call.
  template <typename Call>
  absl::Status Run(Call call) {
    RETURN_IF_ERROR(status());
    return Note(call());
  }

  // The status with which the device was lost; OK if it is not lost.
  absl::Status status() const {
    MutexLock lock(mutex_);
    return lost_;
  }

 private:
  absl::Status Note(absl::Status status) {
    MutexLock lock(mutex_);
    if (lost_.ok() && absl::IsUnavailable(status)) lost_ = status;
    return lost_.ok() ? status : lost_;
  }

  mutable Mutex mutex_;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::kernels
