#include "engine/backend/devices.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/io/log.h"
#include "base/status.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/backend/cpu/cpu_landmarks.h"
#include "engine/backend/cpu/faiss_lists.h"
#include "engine/backend/device/device_backend.h"
#include "engine/backend/device/device_landmarks.h"
#include "engine/backend/device/device_sparse.h"
#include "kernels/gemm/gemm.h"
#ifdef RECOLLECT_WITH_CUDA
#include "kernels/cuda/cuda_device.h"
#endif

namespace recollect::engine {
namespace {

// Of a model of one file, what went wrong begins with its path already.
absl::Status NamingModel(const absl::Status& status, const std::string& directory) {
  if (!absl::StartsWith(status.message(), absl::StrCat(directory, ": "))) {
    return Annotate(status, absl::StrCat("model ", directory));
  }
  return absl::Status(status.code(), absl::StrCat("model ", status.message()));
}

// Returns a model that was loaded, with the chat template of that name if there is a name.
template <typename M>
absl::StatusOr<std::unique_ptr<M>> Finish(absl::StatusOr<std::unique_ptr<M>> model,
                                          const std::string& directory,
                                          const std::string& chat_template) {
  absl::Status status = model.status();
  if (status.ok() && !chat_template.empty()) status = (*model)->ChooseChatTemplate(chat_template);
  if (!status.ok()) return NamingModel(status, directory);
  return model;
}

absl::StatusOr<LoadedModel> LoadHere(const std::string& directory, std::optional<DType> dtype,
                                     int threads, const std::string& chat_template) {
  if (!dtype) {
    const auto fastest = model::CpuModel::FastestDType(directory);
    if (!fastest.ok()) return NamingModel(fastest.status(), directory);
    dtype = *fastest;
    if (*dtype == DType::kFloat32) LogInfo("this CPU has no bf16 products, using fp32");
  }
  ASSIGN_OR_RETURN(auto model,
                   Finish(model::CpuModel::Load(directory, *dtype), directory, chat_template));
  LoadedModel loaded = OnCpu(std::move(model), threads);
  loaded.lists = std::make_shared<FaissListMaker>(loaded.model->config().d_r);
  return loaded;
}

absl::StatusOr<std::shared_ptr<kernels::Device>> OpenCuda([[maybe_unused]] int index) {
#ifdef RECOLLECT_WITH_CUDA
  return kernels::OpenCudaDevice(index);
#else
  return absl::FailedPreconditionError(
      "this build has no CUDA; build it with the preset \"cuda\", or use the device cpu");
#endif
}

absl::StatusOr<LoadedModel> LoadOnCuda(int index, const std::string& directory,
                                       std::optional<DType> dtype, int threads,
                                       const std::string& chat_template) {
  ASSIGN_OR_RETURN(const std::shared_ptr<kernels::Device> device, OpenCuda(index));
  return LoadModelOn(device, directory, dtype, threads, chat_template);
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModel(const std::string& device, const std::string& directory,
                                      std::optional<DType> dtype, int threads,
                                      const std::string& chat_template) {
  if (device == "cpu") return LoadModelOn(nullptr, directory, dtype, threads, chat_template);
  if (device == "auto") {
    absl::StatusOr<LoadedModel> loaded = LoadOnCuda(0, directory, dtype, threads, chat_template);
    if (loaded.ok()) return loaded;
    LogInfo("computing on the CPU: {}", std::string(loaded.status().message()));
    return LoadModelOn(nullptr, directory, dtype, threads, chat_template);
  }
  int index = 0;
  absl::string_view number = device;
  if (!absl::ConsumePrefix(&number, "cuda:") || !absl::SimpleAtoi(number, &index) || index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device '", device, "', expected cpu, auto or cuda:N"));
  }
  return LoadOnCuda(index, directory, dtype, threads, chat_template);
}

absl::StatusOr<LoadedModel> LoadModelOn(const std::shared_ptr<kernels::Device>& device,
                                        const std::string& directory, std::optional<DType> dtype,
                                        int threads, const std::string& chat_template) {
  if (threads < 0) {
    return absl::InvalidArgumentError(absl::StrCat("threads: ", threads, ", expected at least 0"));
  }
  if (device == nullptr) return LoadHere(directory, dtype, threads, chat_template);
  LoadedModel loaded;
  absl::Status runs;
  std::vector<DType> formats = {DType::kBf16, DType::kFloat32};
  if (dtype) formats = {*dtype == DType::kQuantized ? DType::kBf16 : *dtype};
  std::shared_ptr<const model::CpuModel> adapter;
  for (const DType format : formats) {
    ASSIGN_OR_RETURN(loaded.model,
                     Finish(model::Model::Load(directory, format), directory, chat_template));
    if (loaded.model->config().has_adapter()) {
      auto here = model::CpuModel::LoadAdapter(directory, format);
      if (absl::IsFailedPrecondition(here.status())) {  // this CPU has no bf16
        runs = here.status();
        continue;
      }
      ASSIGN_OR_RETURN(adapter, Finish(std::move(here), directory, chat_template));
      loaded.model = adapter;
    }
    runs = model::CheckDeviceConfig(loaded.model->config(), format);
    if (runs.ok()) break;
  }
  const bool landmarks = loaded.model->config().landmarks();
  if (!runs.ok() && !landmarks) return absl::FailedPreconditionError(runs.message());
  if (runs.ok()) {
    ASSIGN_OR_RETURN(loaded.backend,
                     DeviceBackend::Create(device, *loaded.model, adapter, threads));
    LogInfo("layers{} on {}", landmarks ? " and landmark keys" : "", device->name());
  } else {
    ASSIGN_OR_RETURN(loaded, LoadHere(directory, dtype, threads, chat_template));
    LogInfo("landmark keys on {}, layers on the CPU: {}", device->name(),
            std::string(runs.message()));
  }
  if (landmarks) {
    loaded.landmarks = std::make_shared<DeviceLandmarks>(device);
    loaded.lists = nullptr;
  } else {
    const bool searched = loaded.model->config().documents() != DocumentKind::kPrefix;
    const auto searches = std::make_shared<ComputeThreads>(searched ? threads : 1);
    loaded.landmarks = std::make_shared<CpuLandmarks>(searches);
    loaded.threads = std::shared_ptr<ThreadPool>(searches, &searches->pool);
    if (searched) loaded.sparse = std::make_shared<DeviceSparse>(device);
  }
  return loaded;
}

}  // namespace recollect::engine
