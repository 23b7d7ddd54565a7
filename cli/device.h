// Which device a host computes on, by name.
#ifndef RECOLLECT_CLI_DEVICE_H_
#define RECOLLECT_CLI_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/landmark_device.h"
#include "model/config.h"

namespace recollect::cli {

// "cpu": null, which the engine takes for its own threads. "cuda:N": landmark keys lie in that
// device's memory and are searched there; all else runs on the CPU. "auto": "cuda:0" where this
// build and machine have one, else "cpu"; logs which. INVALID_ARGUMENT: another name, or a device
// number that the machine does not have; FAILED_PRECONDITION: a build without CUDA, a family
// without landmarks; UNAVAILABLE: no device or driver.
absl::StatusOr<std::shared_ptr<engine::LandmarkDevice>> OpenDevice(
    const std::string& name, const model::ModelConfig& config);

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_DEVICE_H_
