#include "model/model.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/status.h"
#include "model/chunk.h"
#include "model/lexicon.h"
#include "model/pointer.h"
#include "model/text/tokenizer.h"
#include "model/weights/fingerprint.h"
#include "model/weights/safetensors.h"
#include "model/weights/weights.h"

namespace recollect::model {

struct Model::State {
  ModelConfig config;
  std::optional<Lexicon> lexicon;
  std::optional<Pointer> pointer;
  std::vector<float> successor_biases;
  std::unique_ptr<Tokenizer> tokenizer;
  DType dtype = DType::kFloat32;
  int64_t parameters = 0;
  std::string fingerprint;
};

namespace {

absl::StatusOr<ModelConfig> ReadConfig(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  auto config = ParseConfig(text);
  if (!config.ok()) return Annotate(config.status(), path);
  return config;
}

}  // namespace

absl::Status CheckTokenizer(const Tokenizer& tokenizer, const ModelConfig& config) {
  if (tokenizer.vocab_size() != config.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.model has ", tokenizer.vocab_size(),
                                                   " pieces, vocab_size is ", config.vocab_size));
  }
  const std::pair<const char*, int32_t> ids[] = {
      {"unk_id", config.unk_id}, {"lmk_id", config.lmk_id}, {"eos_id", config.eos_id}};
  for (const auto& [name, id] : ids) {
    if (id == ModelConfig::kNoLandmark || tokenizer.TokenBytes(id).empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.model: piece ", id, " (", name,
                                                   ") is \"", std::string(tokenizer.TokenBytes(id)),
                                                   "\", expected a control symbol"));
  }
  return absl::OkStatus();
}

Model::Model() : state_(std::make_unique<State>()) {}
Model::~Model() = default;

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const std::string& directory, DType dtype) {
  std::unique_ptr<Model> model(new Model);
  RETURN_IF_ERROR(model->Read(directory, dtype).status());
  return model;
}

absl::StatusOr<SafetensorsFile> Model::Read(const std::string& directory, DType dtype) {
  State& state = *state_;
  state.dtype = dtype;
  const std::string config_path = directory + "/config.json";
  const std::string weights_path = directory + "/model.safetensors";
  const std::string tokenizer_path = directory + "/tokenizer.model";
  ASSIGN_OR_RETURN(state.config, ReadConfig(config_path));
  ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(weights_path));
  RETURN_IF_ERROR(Annotate(CheckTensors(file, state.config), weights_path));
  if (state.config.lexicon.d > 0) {
    auto lexicon = Lexicon::Load(file, state.config);
    if (!lexicon.ok()) return Annotate(lexicon.status(), weights_path);
    state.lexicon = *std::move(lexicon);
  }
  if (state.config.pointer.reach > 0) {
    auto pointer = Pointer::Load(file, state.config);
    if (!pointer.ok()) return Annotate(pointer.status(), weights_path);
    state.pointer = *std::move(pointer);
  }
  if (state.config.successors) {
    auto biases = LoadSuccessorBiases(file, state.config);
    if (!biases.ok()) return Annotate(biases.status(), weights_path);
    state.successor_biases = *std::move(biases);
  }
  for (const auto& [name, info] : file.tensors()) {
    state.parameters +=
        std::reduce(info.shape.begin(), info.shape.end(), int64_t{1}, std::multiplies<int64_t>());
  }
  std::error_code ignored;
  if (std::filesystem::exists(tokenizer_path, ignored)) {
    ASSIGN_OR_RETURN(state.tokenizer, Tokenizer::Load(tokenizer_path));
    RETURN_IF_ERROR(Annotate(CheckTokenizer(*state.tokenizer, state.config), directory));
  } else if (state.config.min_chunk_tokens > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(config_path, ": min_chunk_tokens is ", state.config.min_chunk_tokens,
                     ", but there is no ", tokenizer_path, " to say where sentences end"));
  }
  ASSIGN_OR_RETURN(const FileDigests files, HashModelFiles(directory));
  ASSIGN_OR_RETURN(state.fingerprint, ComputeFingerprint(files, state.config.local, dtype));
  return file;
}

const ModelConfig& Model::config() const { return state_->config; }
const Tokenizer* Model::tokenizer() const { return state_->tokenizer.get(); }
DType Model::dtype() const { return state_->dtype; }
int64_t Model::parameters() const { return state_->parameters; }
int64_t Model::weight_bytes() const {
  return (state_->lexicon ? state_->lexicon->bytes() : 0) +
         (state_->pointer ? state_->pointer->bytes() : 0);
}
const std::string& Model::fingerprint() const { return state_->fingerprint; }

const Lexicon* Model::lexicon() const { return state_->lexicon ? &*state_->lexicon : nullptr; }
const Pointer* Model::pointer() const { return state_->pointer ? &*state_->pointer : nullptr; }
std::span<const float> Model::successor_biases() const { return state_->successor_biases; }

void Model::AddTokens(std::span<const int32_t> tokens, EncodedChunk& chunk) const {
  if (state_->lexicon) {
    const auto own = tokens.last(static_cast<size_t>(chunk.rows));
    const std::vector<Bf16> part = state_->lexicon->Key(own);
    chunk.landmark_key.insert(chunk.landmark_key.end(), part.begin(), part.end());
  }
  if (state_->pointer) {
    const auto most = static_cast<size_t>(chunk.rows + state_->pointer->reach());
    const auto kept = tokens.last(std::min(tokens.size(), most));
    chunk.tokens.assign(kept.begin(), kept.end());
  }
}

}  // namespace recollect::model
