#include "cli/host.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/backend/devices.h"
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

// Of --dtype, which the flags check.
std::optional<DType> DTypeOf(const std::string& name) {
  if (name == "auto") return std::nullopt;
  return name == "bf16" ? DType::kBf16 : DType::kFloat32;
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

std::string FindUpward(fs::path from) {
  while (!from.empty()) {
    for (const char* models : {"models", "share/recollect/models"}) {  // a checkout, a package
      const fs::path candidate = from / models / "recollect-7m";
      std::error_code ignored;
      if (fs::exists(candidate / "config.json", ignored)) return candidate.string();
    }
    if (from == from.parent_path()) break;
    from = from.parent_path();
  }
  return "";
}

// What a process maps beside the reserve: to be ready (heaps, stacks of threads: 270 MiB with two
// cores) and for what the database takes later (its cache, what it has not written yet: 180 MiB),
// and the weights, as they are in their file and packed, in fp32 if need be.
int64_t NeededBytes(const fs::path& model_dir) {
  constexpr int64_t kProcessBytes = int64_t{480} << 20, kCoreBytes = int64_t{16} << 20;
  const int64_t cores = std::thread::hardware_concurrency();
  std::error_code error;
  const auto weights = fs::file_size(model_dir / "model.safetensors", error);
  return kProcessBytes + cores * kCoreBytes + (error ? 0 : static_cast<int64_t>(weights) * 3);
}

}  // namespace

absl::StatusOr<std::string> FindModel() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& from : {executable, fs::current_path(error)}) {
    if (std::string found = FindUpward(from); !found.empty()) return found;
  }
  return absl::NotFoundError(
      "no models/recollect-7m at or above the executable or the working directory; name one with "
      "--model DIR");
}

absl::StatusOr<std::string> DefaultDataDir() {
  const char* data_home = std::getenv("XDG_DATA_HOME");
  if (data_home != nullptr && data_home[0] != '\0') return absl::StrCat(data_home, "/recollect");
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] != '\0') return absl::StrCat(home, "/.local/share/recollect");
  return absl::FailedPreconditionError(
      "neither HOME nor XDG_DATA_HOME is set; name a directory with --data-dir");
}

absl::StatusOr<Host> CreateHost(const HostOptions& options) {
  std::string model_dir = options.model_dir;
  if (model_dir.empty()) {
    ASSIGN_OR_RETURN(model_dir, FindModel());
  }
  std::error_code error;
  if (!fs::is_directory(model_dir, error)) {
    return absl::NotFoundError(
        absl::StrCat("model directory ", model_dir,
                     fs::exists(model_dir, error) ? " is not a directory" : " does not exist"));
  }
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
  host.model_name = fs::path(model_dir).lexically_normal().filename().string();
  if (host.model_name.empty())
    host.model_name = fs::path(model_dir).lexically_normal().parent_path().filename().string();

  RETURN_IF_ERROR(KeepMemoryReserve(NeededBytes(model_dir)));
  ASSIGN_OR_RETURN(
      engine::LoadedModel model,
      engine::LoadModel(options.device, model_dir, DTypeOf(options.dtype), options.threads));
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
  return host;
}

}  // namespace recollect::cli
