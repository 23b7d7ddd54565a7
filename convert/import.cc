#include "convert/import.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "convert/weight_stream.h"
#include "model/model.h"
#include "model/text/tokenizer.h"

namespace recollect::convert {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExtensions[] = {".pt", ".pth", ".ckpt", ".bin"};
constexpr char kTokenizer[] = "tokenizer.model";

absl::StatusOr<std::string> FindCheckpoint(const fs::path& directory) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string extension = at->path().extension().string();
    if (std::find(std::begin(kExtensions), std::end(kExtensions), extension) !=
        std::end(kExtensions))
      found.push_back(at->path().filename().string());
  }
  if (error) return absl::NotFoundError(absl::StrCat(directory.string(), ": ", error.message()));
  std::sort(found.begin(), found.end());
  if (found.size() == 1) return (directory / found.front()).string();
  const std::string kinds = absl::StrJoin(kExtensions, ", ");
  if (found.empty())
    return absl::NotFoundError(
        absl::StrCat(directory.string(), ": no checkpoint (", kinds, ") in it"));
  return absl::InvalidArgumentError(
      absl::StrCat(directory.string(), ": ", found.size(),
                   " checkpoints, expected one: ", absl::StrJoin(found, ", ")));
}

// A model needs the names of its tokens; the checkpoint does not carry them.
absl::Status CheckTokenizerFile(const std::string& path, const model::ModelConfig& config) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(
        path,
        ": not there; put the SentencePiece model of the LLaMA tokenizer beside the checkpoint"));
  }
  ASSIGN_OR_RETURN(const auto tokenizer, model::Tokenizer::Load(path));
  return Annotate(model::CheckTokenizer(*tokenizer, config), path);
}

absl::Status CannotMake(const fs::path& out, const std::string& reason) {
  return absl::FailedPreconditionError(absl::StrCat(out.string(), " cannot be made: ", reason));
}

absl::Status CheckOut(const fs::path& out) {
  if (out.empty()) return absl::InvalidArgumentError("the model directory to make has no name");
  std::error_code error;
  const bool exists = fs::exists(out, error);
  if (!error && !exists) return absl::OkStatus();
  if (!error && fs::is_directory(out, error) && fs::is_empty(out, error)) {
    // It will be replaced: not possible where another file system is mounted, say. Tried now,
    // before an hour of work.
    if (rmdir(out.c_str()) == 0 && mkdir(out.c_str(), 0777) == 0) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(out.string(),
                                                      " cannot be replaced: ", std::strerror(errno),
                                                      "; name a folder that is not there yet"));
  }
  if (error) return CannotMake(out, error.message());
  return absl::AlreadyExistsError(
      absl::StrCat(out.string(), " is there and not an empty folder; choose another --out"));
}

// A new folder beside the one that is to be; gone again unless it was renamed. Its lock tells it
// from one whose import was killed, which the next import to the same place removes.
class WorkFolder {
 public:
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Create(const fs::path& out) {
    const std::string prefix = absl::StrCat(out.string(), ".importing-");
    std::error_code error;
    if (out.has_parent_path()) fs::create_directories(out.parent_path(), error);
    RemoveAbandoned(prefix);
    std::string name = absl::StrCat(prefix, "XXXXXX");
    if (error) return CannotMake(out.parent_path(), error.message());
    if (mkdtemp(name.data()) == nullptr) return CannotMake(name, std::strerror(errno));
    return std::unique_ptr<WorkFolder>(new WorkFolder(name, Lock(name)));
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
    if (lock_ >= 0) close(lock_);
  }
  fs::path File(const char* name) const { return path_ / name; }

  absl::Status RenameTo(const fs::path& out) {
    // mkdtemp keeps others out; the model is as readable as any folder made here.
    const mode_t mask = umask(0);
    umask(mask);
    if (chmod(path_.c_str(), 0777 & ~mask) != 0 || std::rename(path_.c_str(), out.c_str()) != 0)
      return CannotMake(out, std::strerror(errno));
    path_.clear();
    return absl::OkStatus();
  }

 private:
  WorkFolder(fs::path path, int lock) : path_(std::move(path)), lock_(lock) {}

  // The folder's descriptor with its lock, which ends with the process; -1: somebody has it.
  static int Lock(const fs::path& path) {
    const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) == 0) return folder;
    close(folder);
    return -1;
  }

  static void RemoveAbandoned(const std::string& prefix) {
    const std::string name = fs::path(prefix).filename().string();
    const fs::path parent = fs::path(prefix).parent_path();
    std::error_code error;
    std::vector<fs::path> abandoned;
    for (fs::directory_iterator at(parent.empty() ? "." : parent, error), end; !error && at != end;
         at.increment(error)) {
      if (at->path().filename().string().starts_with(name)) abandoned.push_back(at->path());
    }
    for (const fs::path& path : abandoned) {
      const int lock = Lock(path);
      if (lock < 0) continue;
      fs::remove_all(path, error);
      close(lock);
    }
  }

  fs::path path_;
  const int lock_;
};

absl::Status CheckSpace(const WorkFolder& work, int64_t needed) {
  std::error_code error;
  const fs::space_info space = fs::space(work.File("").parent_path(), error);
  if (error || space.available >= static_cast<uintmax_t>(needed)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the weights need ", needed, " bytes on the disk, it has ", space.available));
}

absl::Status Interrupted() {
  return absl::CancelledError("the import was interrupted; nothing is left of it");
}

absl::Status WriteWeights(const ImportOptions& options, const ImportPlan& plan,
                          TorchCheckpoint& checkpoint, const std::string& path) {
  std::vector<TensorHeader> headers;
  for (const OutputTensor& tensor : plan.tensors) headers.push_back(tensor.header);
  ASSIGN_OR_RETURN(SafetensorsWriter writer,
                   SafetensorsWriter::Create(path, options.type, headers));
  const int64_t total = plan.parameters();
  int64_t done = 0;
  const auto write = [&](std::span<const float> values) -> absl::Status {
    RETURN_IF_ERROR(writer.Write(values));
    done += static_cast<int64_t>(values.size());
    return options.progress && !options.progress(done, total) ? Interrupted() : absl::OkStatus();
  };
  for (const OutputTensor& tensor : plan.tensors) {
    for (const TensorRef& part : tensor.parts) {
      RETURN_IF_ERROR(Annotate(StreamWeights(checkpoint, part, write), tensor.header.name));
    }
    const std::vector<float> zeros(
        static_cast<size_t>(std::min(tensor.zero_items, int64_t{1} << 20)));
    for (int64_t left = tensor.zero_items; left > 0; left -= static_cast<int64_t>(zeros.size())) {
      const size_t count = std::min(zeros.size(), static_cast<size_t>(left));
      RETURN_IF_ERROR(write(std::span(zeros).first(count)));
    }
  }
  return writer.Finish();
}

absl::Status WriteSmallFiles(const ImportPlan& plan, const std::string& tokenizer,
                             const WorkFolder& work) {
  std::ofstream config(work.File("config.json"), std::ios::binary);
  config << plan.config.dump(2) << "\n";
  config.close();
  if (!config) return absl::ResourceExhaustedError("config.json cannot be written");
  std::error_code error;
  fs::copy_file(tokenizer, work.File(kTokenizer), error);
  if (error) return absl::ResourceExhaustedError(absl::StrCat(kTokenizer, ": ", error.message()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImportReport> Import(const ImportOptions& options) {
  fs::path out = fs::path(options.out_dir).lexically_normal();
  if (!out.has_filename()) out = out.parent_path();  // "models/x/"
  RETURN_IF_ERROR(CheckOut(out));
  ImportReport report;
  ASSIGN_OR_RETURN(report.checkpoint, FindCheckpoint(options.from_dir));
  ASSIGN_OR_RETURN(const auto checkpoint, TorchCheckpoint::Open(report.checkpoint));
  auto planned = PlanImport(*checkpoint, options.plan);
  if (!planned.ok()) return Annotate(planned.status(), report.checkpoint);
  const ImportPlan plan = *std::move(planned);
  // What is written must be what Model::Load reads.
  const auto config = model::ParseConfig(plan.config.dump());
  if (!config.ok())
    return Annotate(config.status(), absl::StrCat(report.checkpoint, ": config.json to write"));
  const std::string tokenizer = (fs::path(options.from_dir) / kTokenizer).string();
  RETURN_IF_ERROR(CheckTokenizerFile(tokenizer, *config));
  RETURN_IF_ERROR(Annotate(
      CheckEqualBytes(*checkpoint, plan.embedding, plan.head),
      absl::StrCat(report.checkpoint, ": head.lm_head.weight is not embedding.wte.weight")));

  ASSIGN_OR_RETURN(const auto work, WorkFolder::Create(out));
  report.bytes = plan.parameters() * WeightBytes(options.type);
  RETURN_IF_ERROR(CheckSpace(*work, report.bytes));
  RETURN_IF_ERROR(WriteSmallFiles(plan, tokenizer, *work));
  const std::string weights = work->File("model.safetensors").string();
  RETURN_IF_ERROR(Annotate(WriteWeights(options, plan, *checkpoint, weights), report.checkpoint));
  ASSIGN_OR_RETURN(const model::ModelFiles written, model::FindModelFiles(work->File("").string()));
  ASSIGN_OR_RETURN(report.sha256, model::HashModelFiles(written));
  const auto fingerprint = [&](DType dtype) {
    return model::ComputeFingerprint(report.sha256, config->local, dtype);
  };
  ASSIGN_OR_RETURN(report.bf16_fingerprint, fingerprint(DType::kBf16));
  ASSIGN_OR_RETURN(report.fp32_fingerprint, fingerprint(DType::kFloat32));
  if (options.progress && !options.progress(plan.parameters(), plan.parameters())) {
    return Interrupted();
  }
  RETURN_IF_ERROR(work->RenameTo(out));

  report.config = plan.config;
  report.tensors = static_cast<int64_t>(plan.tensors.size());
  report.parameters = plan.parameters();
  report.step = plan.step;
  report.assumptions = plan.assumptions;
  return report;
}

}  // namespace recollect::convert
