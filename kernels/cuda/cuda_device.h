// kernels/device/device.h on a GPU: its operations are queued on one stream, UploadAsync's copies
// on another.
//   ASSIGN_OR_RETURN(std::shared_ptr<Device> device, OpenCudaDevice(0));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace recollect::kernels {

// Device `index` of the machine, which stays the current one in every thread that has called it.
// INVALID_ARGUMENT: there are fewer (names both numbers); UNAVAILABLE: no device, no driver for
// one, or one that this build has no code for. Else statuses of kernels/cuda/cuda_status.h and
// cublaslt.h.
//
// Memory comes from the device's default pool, in stream order: work queued after an allocation may
// use it, and freed memory is reused once the work queued before is done. Until the process ends,
// the pool keeps up to 15/16 of the device's memory for later buffers. Upload returns when the host
// array is in pinned memory: it waits only for uploads that were followed by 8 MiB or more of later
// ones. There are 16 MiB of pinned memory for uploads of up to 1 MiB, 16 MiB for longer ones, and
// 16 MiB for UploadAsync. Download waits for all work queued on the operations' stream, once for
// each MiB; meanwhile other threads may queue more. The device's destructor waits for all queued
// work.
absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(int index);

}  // namespace recollect::kernels
