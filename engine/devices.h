// Which device an engine computes on, by name. A library of its own, recollect::devices: whoever
// links the engine alone needs no CUDA.
#ifndef RECOLLECT_ENGINE_DEVICES_H_
#define RECOLLECT_ENGINE_DEVICES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/backend.h"
#include "engine/landmark_device.h"
#include "model/model.h"

namespace recollect::engine {

// Where the engine's two kinds of work are done; null: on its own threads.
struct Devices {
  std::shared_ptr<Backend> backend;           // the layers
  std::shared_ptr<LandmarkDevice> landmarks;  // the search of landmark keys
};

// For `model`, loaded from `directory`. "cpu": neither. "cuda:N": what the family has of both on
// that device, or the landmark keys alone of a model whose layers have sizes that no device takes,
// which is logged. "auto": "cuda:0" where this build and machine have one, else "cpu"; logs which.
// INVALID_ARGUMENT: another name, or a device number that the machine does not have;
// FAILED_PRECONDITION: a build without CUDA, a model of which a device can take nothing;
// UNAVAILABLE: no device or driver; RESOURCE_EXHAUSTED: the device has no room for the weights.
absl::StatusOr<Devices> OpenDevices(const std::string& name, const model::Model& model,
                                    const std::string& directory);

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_DEVICES_H_
