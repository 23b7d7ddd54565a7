#include "engine/devices.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status.h"
#ifdef RECOLLECT_WITH_CUDA
#include "engine/device_backend.h"
#include "engine/device_landmarks.h"
#include "kernels/cuda_device.h"
#endif

namespace recollect::engine {
namespace {

absl::StatusOr<Devices> OpenCuda([[maybe_unused]] int index,
                                 [[maybe_unused]] const model::Model& model,
                                 [[maybe_unused]] const std::string& directory) {
#ifdef RECOLLECT_WITH_CUDA
  Devices devices;
  ASSIGN_OR_RETURN(const std::shared_ptr<kernels::Device> device, kernels::OpenCudaDevice(index));
  const absl::Status runs = model::CheckDeviceConfig(model.config(), model.dtype());
  const bool landmarks = model.config().landmarks();
  if (!runs.ok() && !landmarks) return absl::FailedPreconditionError(runs.message());
  if (landmarks) devices.landmarks = std::make_shared<DeviceLandmarks>(device);
  if (runs.ok()) {
    ASSIGN_OR_RETURN(devices.backend, DeviceBackend::Create(device, model, directory));
    LogInfo("layers{} on {}", landmarks ? " and landmark keys" : "", device->name());
  } else {
    LogInfo("landmark keys on {}, layers on the CPU: {}", device->name(),
            std::string(runs.message()));
  }
  return devices;
#else
  return absl::FailedPreconditionError(
      "this build has no CUDA; build it with the preset \"cuda\", or use the device cpu");
#endif
}

}  // namespace

absl::StatusOr<Devices> OpenDevices(const std::string& name, const model::Model& model,
                                    const std::string& directory) {
  if (name == "cpu") return Devices();
  if (name == "auto") {
    absl::StatusOr<Devices> devices = OpenCuda(0, model, directory);
    if (devices.ok()) return devices;
    LogInfo("computing on the CPU: {}", std::string(devices.status().message()));
    return Devices();
  }
  int index = 0;
  absl::string_view number = name;
  if (!absl::ConsumePrefix(&number, "cuda:") || !absl::SimpleAtoi(number, &index) || index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device '", name, "', expected cpu, auto or cuda:N"));
  }
  return OpenCuda(index, model, directory);
}

}  // namespace recollect::engine
