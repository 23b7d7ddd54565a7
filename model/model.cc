#include "model/model.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "model/chunk.h"
#include "model/judge.h"
#include "model/lexicon.h"
#include "model/model_files.h"
#include "model/model_text.h"
#include "model/pointer.h"
#include "model/text/tokenizer.h"
#include "model/text/words.h"
#include "model/weights/adapter_weights.h"
#include "model/weights/fingerprint.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

struct Model::State {
  ModelFiles files;
  ModelConfig config;
  std::optional<Lexicon> lexicon;
  std::optional<Pointer> pointer;
  std::vector<float> successor_biases;
  float successor_distance = 0;
  ModelText text;
  std::optional<Words> words;
  std::unique_ptr<const Judge> judge;  // borrows the words
  DType dtype = DType::kFloat32;
  int64_t parameters = 0;
  std::string fingerprint;

  absl::Status ReadTensors(const TensorFile& file);
  absl::Status ReadAdapter();
  absl::Status ReadText();
  void AddEnds();
  void Count(const TensorFile& file);
};

absl::Status CheckTokenizer(const Tokenizer& tokenizer, const ModelConfig& config) {
  if (tokenizer.vocab_size() != config.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(tokenizer.vocab_size(), " pieces, vocab_size is ", config.vocab_size));
  }
  static_assert(ModelConfig::kNoLandmark == ModelConfig::kNoUnknown);
  const std::pair<const char*, int32_t> ids[] = {
      {"unk_id", config.unk_id}, {"lmk_id", config.lmk_id}, {"eos_id", config.eos_id}};
  for (const auto& [name, id] : ids) {
    if (id == ModelConfig::kNoLandmark || tokenizer.TokenBytes(id).empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("piece ", id, " (", name, ") is \"",
                                                   std::string(tokenizer.TokenBytes(id)),
                                                   "\", expected a control symbol"));
  }
  return absl::OkStatus();
}

Model::Model() : state_(std::make_unique<State>()) {}
Model::~Model() = default;

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const std::string& path, DType dtype) {
  std::unique_ptr<Model> model(new Model);
  RETURN_IF_ERROR(model->Read(path, dtype).status());
  return model;
}

absl::Status Model::State::ReadTensors(const TensorFile& file) {
  if (config.lexicon.d > 0) {
    ASSIGN_OR_RETURN(lexicon, Lexicon::Load(file, config));
  }
  if (config.pointer.reach > 0) {
    ASSIGN_OR_RETURN(pointer, Pointer::Load(file, config));
  }
  if (config.successors) {
    ASSIGN_OR_RETURN(successor_biases, LoadSuccessorBiases(file, config));
  }
  Count(file);
  return absl::OkStatus();
}

void Model::State::Count(const TensorFile& file) {
  for (const auto& [name, info] : file.tensors()) {
    parameters +=
        std::reduce(info.shape.begin(), info.shape.end(), int64_t{1}, std::multiplies<int64_t>());
  }
}

// REQUIRES: ReadText.
absl::Status Model::State::ReadAdapter() {
  ASSIGN_OR_RETURN(const std::unique_ptr<TensorFile> file, OpenAdapter(files, config));
  ASSIGN_OR_RETURN(successor_distance, ReadSuccessorDistance(*file));
  Count(*file);
  if (!words) {
    return absl::InvalidArgumentError(absl::StrCat(
        files.adapter_config, ": the base has no tokenizer, whose words the adapter weighs"));
  }
  if (words->count() != config.adapter.words) {
    return absl::InvalidArgumentError(absl::StrCat(files.adapter_config, ": words is ",
                                                   config.adapter.words,
                                                   ", the base's vocabulary has ", words->count()));
  }
  if (config.adapter.reader.exists()) {
    ASSIGN_OR_RETURN(const std::unique_ptr<TensorFile> reader, OpenReader(files, config));
    Count(*reader);
  }
  if (config.adapter.reranker.exists()) {
    ASSIGN_OR_RETURN(const std::unique_ptr<TensorFile> reranker, OpenReranker(files, config));
    Count(*reranker);
  }
  const JudgeConfig& judges = config.adapter.judge;
  if (judges.exists()) judge = std::make_unique<const Judge>(judges, *words);
  return absl::OkStatus();
}

// An answer ends where the template says, too.
void Model::State::AddEnds() {
  if (!text.chat) return;
  for (const int32_t id : text.chat->ends()) {
    if (!config.Ends(id)) config.more_eos_ids.push_back(id);
  }
}

absl::Status Model::State::ReadText() {
  ASSIGN_OR_RETURN(text, ReadModelText(files, config));
  AddEnds();
  if (text.tokenizer != nullptr) {
    if (config.documents() == DocumentKind::kText || config.has_adapter()) {
      words = Words::Make(*text.tokenizer);
    }
    return absl::OkStatus();
  }
  if (files.layout !=
      ModelLayout::kOwn) {  // nobody asked for text, and there is nothing to cut it by
    config.text_documents = false;
    return absl::OkStatus();
  }
  if (config.documents() == DocumentKind::kText) {
    return absl::InvalidArgumentError(absl::StrCat(files.config,
                                                   ": documents is \"text\", but there is no ",
                                                   files.tokenizer, " to cut them by"));
  }
  if (config.min_chunk_tokens == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(files.config, ": min_chunk_tokens is ",
                                                 config.min_chunk_tokens, ", but there is no ",
                                                 files.tokenizer, " to say where sentences end"));
}

absl::StatusOr<std::unique_ptr<TensorFile>> Model::Read(const std::string& path, DType dtype) {
  State& state = *state_;
  state.dtype = dtype;
  ASSIGN_OR_RETURN(state.files, FindModelFiles(path));
  ASSIGN_OR_RETURN(state.config, ReadConfig(state.files));
  ASSIGN_OR_RETURN(auto file, OpenWeights(state.files, state.config));
  RETURN_IF_ERROR(Annotate(state.ReadTensors(*file), state.files.weights));
  RETURN_IF_ERROR(state.ReadText());
  if (state.config.has_adapter()) RETURN_IF_ERROR(state.ReadAdapter());
  ASSIGN_OR_RETURN(const FileDigests digests, HashModelFiles(state.files));
  if (const std::string& base = state.config.adapter.base_sha256;
      !base.empty() && base != digests.weights) {
    return absl::FailedPreconditionError(
        absl::StrCat(state.files.adapter_config, ": made for weights with the SHA-256 ", base,
                     ", those of ", state.files.weights, " have ", digests.weights));
  }
  ASSIGN_OR_RETURN(state.fingerprint, ComputeFingerprint(digests, state.config.local, dtype));
  return file;
}

const ModelConfig& Model::config() const { return state_->config; }
const ModelFiles& Model::files() const { return state_->files; }
const Tokenizer* Model::tokenizer() const { return state_->text.tokenizer.get(); }
std::optional<int32_t> Model::begin_token() const { return state_->text.begin_token; }
const ChatTemplate* Model::chat_template() const {
  return state_->text.chat ? &*state_->text.chat : nullptr;
}
const absl::Status& Model::chat_template_status() const { return state_->text.no_chat; }

absl::Status Model::ChooseChatTemplate(std::string_view name) {
  ModelText& text = state_->text;
  if (text.tokenizer == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--chat-template ", std::string(name), ": ", text.no_chat.message()));
  }
  ASSIGN_OR_RETURN(text.chat,
                   ChatTemplate::Named(name, *text.tokenizer, text.begin_token.has_value()));
  state_->AddEnds();
  return absl::OkStatus();
}

DType Model::dtype() const { return state_->dtype; }
int64_t Model::parameters() const { return state_->parameters; }
int64_t Model::weight_bytes() const {
  return (state_->lexicon ? state_->lexicon->bytes() : 0) +
         (state_->pointer ? state_->pointer->bytes() : 0) +
         (state_->words ? state_->words->bytes() : 0);
}
const std::string& Model::fingerprint() const { return state_->fingerprint; }

const Lexicon* Model::lexicon() const { return state_->lexicon ? &*state_->lexicon : nullptr; }
const Pointer* Model::pointer() const { return state_->pointer ? &*state_->pointer : nullptr; }
const Judge* Model::judge() const { return state_->judge.get(); }
const Words* Model::words() const { return state_->words ? &*state_->words : nullptr; }
std::span<const float> Model::successor_biases() const { return state_->successor_biases; }

float Model::successor_distance() const { return state_->successor_distance; }

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
  if (state_->config.has_adapter()) {
    const auto own = tokens.last(static_cast<size_t>(chunk.rows));
    chunk.tokens.assign(own.begin(), own.end());
  }
}

}  // namespace recollect::model
