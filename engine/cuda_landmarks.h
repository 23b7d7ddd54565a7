// Landmark keys in the memory of a CUDA device, searched there (kernels/landmark_topk_cuda.h).
#ifndef RECOLLECT_ENGINE_CUDA_LANDMARKS_H_
#define RECOLLECT_ENGINE_CUDA_LANDMARKS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/landmark_device.h"

namespace recollect::engine {

// Device `index` of the machine. INVALID_ARGUMENT: there are fewer (names both numbers);
// UNAVAILABLE: no device, or no driver for one. Once the device is lost, all calls are UNAVAILABLE.
absl::StatusOr<std::shared_ptr<LandmarkDevice>> OpenCudaLandmarks(int index);

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_CUDA_LANDMARKS_H_
