#include "cli/common/host.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "base/io/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "cli/common/models.h"
#include "engine/backend/devices.h"
#include "model/gguf_parts.h"
#include "store/document_store.h"
#ifdef RECOLLECT_WITH_ROCKSDB
#include "store/rocks/rocks_cache.h"
#include "store/rocks/rocks_store.h"
#endif
#ifdef RECOLLECT_WITH_RADOS
#include "store/rados/rados_store.h"
#endif

namespace recollect::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kMemoryDir[] = ":memory:";
// Without --model: the chat model, where `model add` has brought it, else what comes with the
// program.
constexpr char kChatModel[] = "smollm2", kSmallModel[] = "recollect-7m";
// In a data directory: its model, by name or path. That is the one that it was served with last,
// or, if it never was, used with first.
constexpr char kModelFile[] = "MODEL";

// Of --dtype, which the flags check.
std::optional<DType> DTypeOf(const std::string& name) {
  for (const DType dtype : {DType::kFloat32, DType::kBf16, DType::kQuantized}) {
    if (name == DTypeName(dtype)) return dtype;
  }
  return std::nullopt;  // auto
}

// Of --index, which the flags check.
engine::IndexMode IndexOf(const std::string& name) {
  if (name == "exact") return engine::IndexMode::kExact;
  return name == "ivf" ? engine::IndexMode::kIvf : engine::IndexMode::kAuto;
}

absl::StatusOr<std::unique_ptr<store::DocumentStore>> OpenStore(const std::string& directory,
                                                                bool accept_data_loss) {
  if (directory == kMemoryDir) return store::CreateMemoryStore();
#ifdef RECOLLECT_WITH_ROCKSDB
  store::RocksOptions options;
  options.directory = directory;
  options.accept_data_loss = accept_data_loss;
  // Files hold documents as they are: they are for their owner alone, like the directory.
  umask(077);
  auto opened = store::OpenRocksStore(options);
  if (!absl::IsDataLoss(opened.status()) || accept_data_loss) return opened;
  return absl::DataLossError(
      absl::StrCat(opened.status().message(),
                   ". Restore the damaged file, or the whole directory, from a backup; or continue "
                   "without the lost data: recollect serve --accept-data-loss"));
#else
  return absl::UnimplementedError(
      absl::StrCat("this build has no RocksDB and cannot open ", directory, "; only ", kMemoryDir));
#endif
}

#ifdef RECOLLECT_WITH_RADOS
absl::StatusOr<std::unique_ptr<store::RecordCache>> OpenCache(const HostOptions& options) {
#ifdef RECOLLECT_WITH_ROCKSDB
  umask(077);  // it has documents as they are
  return store::OpenRocksCache({options.cache_dir, options.cache_budget_bytes});
#else
  return absl::UnimplementedError(
      absl::StrCat("this build has no RocksDB and cannot keep a cache in ", options.cache_dir));
#endif
}
#endif

absl::StatusOr<std::unique_ptr<store::DocumentStore>> OpenSharedStore(const HostOptions& options) {
#ifdef RECOLLECT_WITH_RADOS
  ASSIGN_OR_RETURN(store::RadosOptions rados, store::ParseRadosName(options.store));
  rados.conf_file = options.ceph_conf;
  rados.user = options.ceph_user;
  rados.lease_ms = static_cast<int64_t>(options.store_lease_s * 1000);
  std::unique_ptr<store::RecordCache> cache;
  if (!options.cache_dir.empty()) {
    auto opened = OpenCache(options);
    if (opened.ok()) {
      cache = *std::move(opened);
    } else if (absl::IsResourceExhausted(opened.status())) {
      LogWarning("goes on without a cache: {}", std::string(opened.status().message()));
    } else {
      return opened.status();
    }
  }
  return store::OpenRadosStore(rados, std::move(cache));
#else
  return absl::UnimplementedError(absl::StrCat("this build has no librados and cannot open ",
                                               options.store, "; it was made without it"));
#endif
}

// What a process maps beside the reserve: to be ready (heaps, stacks of threads: 270 MiB with two
// cores) and for what the database takes later (its cache, what it has not written yet: 180 MiB),
// and the weights, as they are in their file and packed. Three times the file holds both in fp32
// where the file has 16 bits a number; of one with fewer, only blocks that stay blocks.
int64_t NeededBytes(const fs::path& path, const std::string& dtype) {
  constexpr int64_t kProcessBytes = int64_t{480} << 20, kCoreBytes = int64_t{32} << 20;
  const int64_t cores = std::thread::hardware_concurrency();
  int64_t weights = 0;
  const auto add = [&](const fs::path& file) {
    std::error_code error;
    const bool gguf = file.extension() == ".gguf";
    if (!gguf && file.extension() != ".safetensors") return;
    const auto bytes = fs::file_size(file, error);
    const int64_t times = gguf && dtype == "fp32" ? 9 : gguf && dtype == "bf16" ? 5 : 3;
    if (!error) weights += static_cast<int64_t>(bytes) * times;
  };
  for (const std::string& part : model::GgufPartPaths(path.string())) add(part);
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(path, error)) add(file.path());
  return kProcessBytes + cores * kCoreBytes + weights;
}

// The model that HostOptions::model stands for.
absl::StatusOr<std::string> ChooseModel(const std::string& asked, const std::string& data_dir) {
  if (!asked.empty()) return asked;
  std::error_code error;
  if (data_dir.empty()) return kSmallModel;  // of a store that is no directory
  if (fs::exists(fs::path(data_dir) / kModelFile, error)) {
    ASSIGN_OR_RETURN(const std::string last,
                     ReadWholeFile((fs::path(data_dir) / kModelFile).string()));
    return std::string(absl::StripAsciiWhitespace(last));
  }
  if (fs::exists(fs::path(data_dir) / "RECOLLECT", error))
    return kSmallModel;  // older than the file
  const auto models = ModelsDir();
  const bool added = models.ok() && fs::exists(fs::path(*models) / kChatModel, error);
  return added ? kChatModel : kSmallModel;
}

// Not worth an error: the next start then asks for --model, or finds another default.
void KeepModel(const std::string& model, const std::string& data_dir) {
  std::error_code error;
  const bool path = fs::exists(model, error);
  const std::string kept = path ? fs::absolute(model, error).string() : model;
  const std::string file = (fs::path(data_dir) / kModelFile).string();
  if (!(std::ofstream(file) << kept << '\n')) LogWarning("{}: cannot be written", file);
}

// A folder's name, or a file's without its ending.
std::string NameOf(const std::string& path) {
  std::error_code error;
  const fs::path normal = fs::absolute(path, error).lexically_normal();
  const fs::path name =
      normal.filename().empty() ? normal.parent_path().filename() : normal.filename();
  return fs::is_directory(path, error) ? name.string() : name.stem().string();
}

}  // namespace

absl::StatusOr<Host> CreateHost(const HostOptions& options) {
  std::error_code error;
  if (!options.cache_dir.empty() && options.store.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--cache-dir ", options.cache_dir, " is for --store; a data directory needs no cache"));
  }
  Host host;
  host.data_dir = options.store.empty() ? options.data_dir : options.store;
  if (host.data_dir.empty()) {
    ASSIGN_OR_RETURN(host.data_dir, DefaultDataDir());
  } else if (options.store.empty() && !options.makes_data_dir && host.data_dir != kMemoryDir &&
             !fs::exists(host.data_dir, error)) {
    return absl::NotFoundError(absl::StrCat("data directory ", host.data_dir,
                                            " does not exist; serve and ingest make one"));
  }
  const bool directory = options.store.empty() && host.data_dir != kMemoryDir;
  ASSIGN_OR_RETURN(const std::string chosen,
                   ChooseModel(options.model, directory ? host.data_dir : ""));
  ASSIGN_OR_RETURN(const std::string model_path, FindModel(chosen));
  host.model_name = NameOf(model_path);
  const CatalogModel* const known = FindInCatalog(host.model_name);
  if (known != nullptr && HasOlderMemory(*known, model_path)) {
    LogWarning(
        "{}: its memory.json is of another release; `recollect model add {}` brings that of "
        "this one",
        model_path, host.model_name);
  }

  RETURN_IF_ERROR(KeepMemoryReserve(NeededBytes(model_path, options.dtype)));
  ASSIGN_OR_RETURN(engine::LoadedModel model,
                   engine::LoadModel(options.device, model_path, DTypeOf(options.dtype),
                                     options.threads, options.chat_template));
  ASSIGN_OR_RETURN(auto store, options.store.empty()
                                   ? OpenStore(host.data_dir, options.accept_data_loss)
                                   : OpenSharedStore(options));
  engine::EngineOptions engine = options.engine;
  engine.index = IndexOf(options.index);
  // Of --chunk-states-format, which the flags check.
  engine.chunk_states_format = options.chunk_states_format == "bf16"
                                   ? engine::ChunkStatesFormat::kBf16
                                   : engine::ChunkStatesFormat::kMxInt8;
  ASSIGN_OR_RETURN(host.engine, engine::Engine::Create(engine, std::move(model), std::move(store)));
  const bool has_one = fs::exists(fs::path(host.data_dir) / kModelFile, error);
  if (directory && (options.keeps_model || !has_one)) KeepModel(chosen, host.data_dir);
  return host;
}

}  // namespace recollect::cli
