#include "cli/device.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#ifdef RECOLLECT_WITH_CUDA
#include "engine/cuda_landmarks.h"
#endif

namespace recollect::cli {
namespace {

using Device = std::shared_ptr<engine::LandmarkDevice>;

absl::StatusOr<Device> OpenCuda([[maybe_unused]] int index) {
#ifdef RECOLLECT_WITH_CUDA
  return engine::OpenCudaLandmarks(index);
#else
  return absl::FailedPreconditionError(
      "this build has no CUDA; build it with the preset \"cuda\", or use --device cpu");
#endif
}

}  // namespace

absl::StatusOr<Device> OpenDevice(const std::string& name, const model::ModelConfig& config) {
  if (name == "cpu") return nullptr;
  if (name == "auto") {
    if (!config.landmarks()) return nullptr;
    absl::StatusOr<Device> device = OpenCuda(0);
    if (device.ok()) {
      LogInfo("landmark keys on {}", (*device)->name());
      return device;
    }
    LogInfo("landmark keys on the CPU: {}", std::string(device.status().message()));
    return nullptr;
  }
  int index = 0;
  absl::string_view number = name;
  if (!absl::ConsumePrefix(&number, "cuda:") || !absl::SimpleAtoi(number, &index) || index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", name, "', expected cpu, auto or cuda:N"));
  }
  if (!config.landmarks()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--device ", name, ": family ", config.architecture,
                     " has no landmarks, and nothing else runs on a device yet"));
  }
  return OpenCuda(index);
}

}  // namespace recollect::cli
