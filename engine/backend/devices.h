// Loads a model and the device on which it computes, given by name. It is a library of its own,
// recollect::devices, so that linking the engine alone needs no CUDA.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "engine/backend/loaded_model.h"
#include "kernels/device/device.h"

namespace recollect::engine {

// Loads the model at `directory`, which may be a GGUF file. device: "cpu"; "cuda:N"; or "auto",
// which is "cuda:0" if this build and machine have one with room for the model, otherwise "cpu",
// and is logged. dtype: nullopt means, on the CPU, the blocks of a file that has its weights in
// blocks; otherwise bf16 if the processor that runs the layers supports it for this model, or else
// fp32. A device has no products of blocks: kQuantized is bf16 there. A memory adapter runs on
// both, in a format that both support. threads: of the CPU, for what runs there; 0: one for each
// core. chat_template: ChatTemplate::Named, instead of the files'; empty: theirs.
// INVALID_ARGUMENT: another name, a template that is unknown or does not fit the tokenizer, a
// device number that the machine does not have, or threads < 0; FAILED_PRECONDITION: a build
// without CUDA; UNAVAILABLE: no device or driver; otherwise as LoadModelOn.
absl::StatusOr<LoadedModel> LoadModel(const std::string& device, const std::string& directory,
                                      std::optional<DType> dtype, int threads = 0,
                                      const std::string& chat_template = "");

// Puts both kinds of work on the device, as far as the family has them. If the layers have sizes
// that no device supports, puts only the landmark keys there and logs it. Null device: both kinds
// run on the CPU. Errors of Model::Load, after "model DIR: "; FAILED_PRECONDITION: a device can run
// no part of the model; RESOURCE_EXHAUSTED: the device has no room for the weights.
absl::StatusOr<LoadedModel> LoadModelOn(const std::shared_ptr<kernels::Device>& device,
                                        const std::string& directory, std::optional<DType> dtype,
                                        int threads = 0, const std::string& chat_template = "");

}  // namespace recollect::engine
