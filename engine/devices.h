// A model and what it computes on, by the name of a device. A library of its own,
// recollect::devices: whoever links the engine alone needs no CUDA.
#ifndef RECOLLECT_ENGINE_DEVICES_H_
#define RECOLLECT_ENGINE_DEVICES_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "engine/backend.h"
#include "engine/landmark_device.h"
#include "kernels/device.h"
#include "model/model.h"

namespace recollect::engine {

// A model and where the engine's two kinds of work are done; null: on its own threads.
struct LoadedModel {
  std::unique_ptr<model::Model> model;
  std::shared_ptr<Backend> backend;           // the layers; borrows the model
  std::shared_ptr<LandmarkDevice> landmarks;  // the search of landmark keys
};

// The model of `directory`. device: "cpu"; "cuda:N"; or "auto", "cuda:0" where this build and
// machine have one that has room, else "cpu"; logs which. dtype: none is bf16 where what runs the
// layers has it for this model, else fp32. INVALID_ARGUMENT: another name, or a device number that
// the machine does not have; FAILED_PRECONDITION: a build without CUDA; UNAVAILABLE: no device or
// driver; else as LoadModelOn.
absl::StatusOr<LoadedModel> LoadModel(const std::string& device, const std::string& directory,
                                      std::optional<DType> dtype);

// On the device what the family has of both kinds, or the landmark keys alone of a model whose
// layers have sizes that no device takes, which is logged. Null: both here. Errors of Model::Load,
// after "model DIR: "; FAILED_PRECONDITION: a model of which a device can take nothing;
// RESOURCE_EXHAUSTED: the device has no room for the weights.
absl::StatusOr<LoadedModel> LoadModelOn(const std::shared_ptr<kernels::Device>& device,
                                        const std::string& directory, std::optional<DType> dtype);

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_DEVICES_H_
