#include "model/model_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/io/file.h"
#include "base/json.h"
#include "base/status.h"
#include "model/config/adapter_config.h"
#include "model/config/llama_config.h"
#include "model/gguf_parts.h"
#include "model/weights/adapter_weights.h"
#include "model/weights/gguf.h"
#include "model/weights/llama_gguf.h"
#include "model/weights/llama_tensors.h"
#include "model/weights/reader_weights.h"
#include "model/weights/reranker_weights.h"
#include "model/weights/safetensors.h"
#include "model/weights/weights.h"

namespace recollect::model {
namespace {

namespace fs = std::filesystem;

constexpr char kIndex[] = ".index.json";  // of weights in several files

std::vector<std::string> GgufFilesIn(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".gguf") found.push_back(entry->path().string());
  }
  std::sort(found.begin(), found.end());
  // The first part stands for a model that is split.
  std::erase_if(found, [&](const std::string& path) {
    const std::optional<GgufPartName> name = ParseGgufPartName(path);
    return name.has_value() && name->part > 1 &&
           fs::exists(GgufPartPath(name->stem, 1, name->count), error);
  });
  return found;
}

bool IsSharded(const ModelFiles& files) { return absl::EndsWith(files.weights, kIndex); }

// Whether the file begins as a model of SentencePiece does, with its first piece: LLaMA 3's
// tokenizer.model is of another kind.
bool IsSentencePiece(const std::string& path) {
  constexpr char kPieceTag = 0x0a;
  std::ifstream file(path, std::ios::binary);
  return file.get() == kPieceTag;
}

ModelFiles GgufFiles(const std::string& path) {
  return {.layout = ModelLayout::kGguf, .config = path, .weights = path, .tokenizer = path};
}

template <typename File>
absl::StatusOr<std::unique_ptr<TensorFile>> Opened(absl::StatusOr<File> file) {
  RETURN_IF_ERROR(file.status());
  return std::make_unique<File>(*std::move(file));
}

absl::StatusOr<std::unique_ptr<TensorFile>> OpenSafetensors(
    const std::string& path, const std::vector<TensorSpec>& expected) {
  ASSIGN_OR_RETURN(std::unique_ptr<TensorFile> file, Opened(SafetensorsFile::Open(path)));
  RETURN_IF_ERROR(Annotate(CheckTensors(*file, expected), path));
  return file;
}

// Without the adapter.
absl::StatusOr<ModelFiles> FindBaseFiles(const std::string& path) {
  std::error_code error;
  ModelFiles files{.config = path + "/config.json",
                   .weights = path + "/model.safetensors",
                   .tokenizer = path + "/tokenizer.model"};
  if (!fs::exists(files.config, error)) {
    const std::vector<std::string> gguf = GgufFilesIn(path);
    if (gguf.size() == 1) return GgufFiles(gguf.front());
    if (gguf.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": several models, name one of ", absl::StrJoin(gguf, ", ")));
    }
    return files;  // reading it says what is missing
  }
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files.config));
  auto root = ParseJson(text, EqualKeys::kRefused);
  if (!root.ok()) return Annotate(root.status(), files.config);
  if (IsHubConfig(*root)) {
    files.layout = ModelLayout::kHub;
    // Beside a tokenizer.model a tokenizer.json is the same vocabulary in another form.
    if (!IsSentencePiece(files.tokenizer)) files.tokenizer = path + "/tokenizer.json";
    const bool whole = fs::exists(files.weights, error);
    if (!whole && fs::exists(files.weights + kIndex, error)) files.weights += kIndex;
  }
  return files;
}

}  // namespace

absl::StatusOr<ModelFiles> FindModelFiles(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return GgufFiles(path);
  ASSIGN_OR_RETURN(ModelFiles files, FindBaseFiles(path));
  if (fs::exists(path + "/memory.json", error)) {
    files.adapter_config = path + "/memory.json";
    files.adapter_weights = path + "/memory.safetensors";
    files.reader_weights = path + "/reader.safetensors";
    files.reranker_weights = path + "/reranker.safetensors";
  }
  return files;
}

absl::StatusOr<std::vector<std::string>> WeightPaths(const ModelFiles& files) {
  std::vector<std::string> paths = {files.weights};
  if (files.layout == ModelLayout::kGguf && ParseGgufPartName(files.weights).has_value()) {
    ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(files.weights));
    return file.paths();
  }
  if (!IsSharded(files)) return paths;
  ASSIGN_OR_RETURN(const SafetensorsFile shards, SafetensorsFile::OpenIndex(files.weights));
  paths.insert(paths.end(), shards.paths().begin(), shards.paths().end());
  return paths;
}

absl::StatusOr<ModelConfig> ReadConfig(const ModelFiles& files) {
  // Errors of these name the path.
  std::optional<GgufFile> gguf;
  std::string text;
  if (files.layout == ModelLayout::kGguf) {
    ASSIGN_OR_RETURN(gguf, GgufFile::Open(files.config));
  } else {
    ASSIGN_OR_RETURN(text, ReadWholeFile(files.config));
  }
  const auto read = [&]() -> absl::StatusOr<ModelConfig> {
    if (gguf.has_value()) return LlamaConfigFromGguf(*gguf);
    if (files.layout == ModelLayout::kOwn) return ParseConfig(text);
    ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(text, EqualKeys::kRefused));
    return LlamaConfigFromHub(root);
  };
  absl::StatusOr<ModelConfig> config = read();
  if (!config.ok()) return Annotate(config.status(), files.config);
  if (files.has_adapter()) {
    ASSIGN_OR_RETURN(const std::string adapter, ReadWholeFile(files.adapter_config));
    RETURN_IF_ERROR(Annotate(AddAdapter(adapter, *config), files.adapter_config));
  }
  return config;
}

absl::StatusOr<std::unique_ptr<TensorFile>> OpenAdapter(const ModelFiles& files,
                                                        const ModelConfig& config) {
  return OpenSafetensors(files.adapter_weights, AdapterTensors(config));
}

absl::StatusOr<std::unique_ptr<TensorFile>> OpenReader(const ModelFiles& files,
                                                       const ModelConfig& config) {
  return OpenSafetensors(files.reader_weights, ReaderTensors(config));
}

absl::StatusOr<std::unique_ptr<TensorFile>> OpenReranker(const ModelFiles& files,
                                                         const ModelConfig& config) {
  return OpenSafetensors(files.reranker_weights, RerankerTensors(config));
}

absl::StatusOr<std::unique_ptr<TensorFile>> OpenWeights(const ModelFiles& files,
                                                        const ModelConfig& config) {
  const bool gguf = files.layout == ModelLayout::kGguf;
  ASSIGN_OR_RETURN(std::unique_ptr<TensorFile> file,
                   gguf               ? Opened(GgufFile::Open(files.weights))
                   : IsSharded(files) ? Opened(SafetensorsFile::OpenIndex(files.weights))
                                      : Opened(SafetensorsFile::Open(files.weights)));
  if (files.layout == ModelLayout::kOwn) {
    RETURN_IF_ERROR(Annotate(CheckTensors(*file, ExpectedTensors(config)), files.weights));
    return file;
  }
  auto named =
      LlamaTensors::Create(std::move(file), config, gguf ? LlamaNames::kGguf : LlamaNames::kHub);
  if (!named.ok()) return Annotate(named.status(), files.weights);
  return *std::move(named);
}

}  // namespace recollect::model
