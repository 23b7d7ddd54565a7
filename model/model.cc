#include "model/model.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/status.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/layers.h"
#include "model/weights/fingerprint.h"
#include "model/weights/safetensors.h"
#include "model/weights/weights.h"

namespace recollect::model {

struct Model::State {
  ModelConfig config;
  Weights weights;
  std::optional<Lexicon> lexicon;
  std::optional<Pointer> pointer;
  std::vector<float> successor_biases;
  std::unique_ptr<Tokenizer> tokenizer;
  DType dtype = DType::kFloat32;
  bool computes = true;
  int64_t parameters = 0;
  std::string fingerprint;

  LayerContext context() const { return {config, dtype, config.norm_eps}; }
};

namespace {

absl::StatusOr<ModelConfig> ReadConfig(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  auto config = ParseConfig(text);
  if (!config.ok()) return Annotate(config.status(), path);
  return config;
}

// Adds `delta`, the rows of the reading segments packed in order, to their rows of y.
void AddToReading(kernels::OpContext& ctx, std::span<const Segment> segments, int64_t width,
                  const float* delta, float* y) {
  for (const Segment& segment : segments) {
    const int64_t count = segment.rows * width;
    if (segment.reads_memory()) {
      kernels::Add(ctx, delta, count, y);
      delta += count;
    }
    y += count;
  }
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

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const std::string& directory,
                                                   const LoadOptions& options) {
  if (options.computes && options.dtype == DType::kBf16 && !kernels::Bf16Supported()) {
    return absl::FailedPreconditionError(
        "this CPU has no bf16 products (AVX512-BF16 or AMX); use fp32");
  }
  std::unique_ptr<Model> model(new Model);
  State& state = *model->state_;
  state.dtype = options.dtype;
  state.computes = options.computes;
  const std::string config_path = directory + "/config.json";
  const std::string weights_path = directory + "/model.safetensors";
  const std::string tokenizer_path = directory + "/tokenizer.model";
  ASSIGN_OR_RETURN(state.config, ReadConfig(config_path));
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(weights_path));
  if (options.computes) {
    auto weights = LoadWeights(file, state.config, options.dtype);
    if (!weights.ok()) return Annotate(weights.status(), weights_path);
    state.weights = *std::move(weights);
  } else {
    RETURN_IF_ERROR(Annotate(CheckTensors(file, state.config), weights_path));
  }
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
  ASSIGN_OR_RETURN(state.fingerprint, ComputeFingerprint(files, state.config.local, options.dtype));
  return model;
}

const ModelConfig& Model::config() const { return state_->config; }
const Tokenizer* Model::tokenizer() const { return state_->tokenizer.get(); }
DType Model::dtype() const { return state_->dtype; }
bool Model::computes() const { return state_->computes; }
int64_t Model::parameters() const { return state_->parameters; }
int64_t Model::weight_bytes() const {
  return state_->weights.bytes + (state_->lexicon ? state_->lexicon->bytes() : 0) +
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

void Model::Embed(std::span<const int32_t> ids, float* h) const {
  const int64_t d = state_->config.d;
  for (const int32_t id : ids) {
    RECOLLECT_CHECK(id >= 0 && id < state_->config.vocab_size);
    h = std::copy_n(state_->weights.embed.data() + id * d, d, h);
  }
}

void Model::RunLayer(kernels::OpContext& ctx, int layer, std::span<const Segment> segments,
                     float* h) const {
  const LayerContext context = state_->context();
  const LayerWeights& weights = state_->weights.layers[static_cast<size_t>(layer)];
  const int64_t d = context.config.d;
  int64_t rows = 0;
  for (const Segment& segment : segments) {
    RECOLLECT_CHECK(segment.rows >= 0 && segment.rows <= LayerState::kMaxAppend);
    rows += segment.rows;
  }
  if (rows == 0) return;
  kernels::Add(ctx, RunMixer(ctx, context, weights.mixer, segments, h), rows * d, h);
  const float* ffn_input = h;
  if (weights.gca) {
    if (const float* delta = RunGca(ctx, context, *weights.gca, segments, h)) {
      float* sum = h;
      if (context.config.gca_residual == GcaResidual::kBypass) {
        // The memory reaches the residual stream through the FFN only.
        sum = ctx.Floats(kSum, rows * d);
        std::copy_n(h, rows * d, sum);
        ffn_input = sum;
      }
      AddToReading(ctx, segments, d, delta, sum);
    }
  }
  kernels::Add(ctx, RunFfn(ctx, context, weights.ffn, ffn_input, rows), rows * d, h);
}

EncodedChunk Model::EncodeChunk(kernels::OpContext& ctx, const float* h, int rows) const {
  RECOLLECT_CHECK(state_->config.landmarks() && rows >= 1 && rows <= state_->config.chunk_tokens);
  return RunChunkEncoder(ctx, state_->context(), state_->weights.encoder, h, rows);
}

void Model::Query(kernels::OpContext& ctx, int group, const float* h, float* u) const {
  RunQuery(ctx, state_->context(), state_->weights.queries[static_cast<size_t>(group)], h, u);
}

Memory Model::ProjectMemory(kernels::OpContext& ctx, std::span<const Bf16> states, int rows) const {
  RECOLLECT_CHECK(static_cast<int64_t>(states.size()) == rows * state_->config.d);
  return RunMemoryProjection(ctx, state_->context(), state_->weights.memory, states, rows);
}

void Model::Logits(kernels::OpContext& ctx, const float* h, int64_t rows, float* logits) const {
  const ModelConfig& config = state_->config;
  float* normed = ctx.Floats(kNormed, rows * config.d);
  kernels::RmsNorm(ctx, h, state_->weights.final_norm.data(), config.norm_eps, rows, config.d,
                   normed);
  kernels::Gemm(ctx, state_->weights.head, normed, rows, logits);
}

}  // namespace recollect::model
