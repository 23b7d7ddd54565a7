#include "tests/support/tiny_model.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numbers>
#include <random>

#include "base/check.h"
#include "model/weights/weights.h"
#include "nlohmann/json.hpp"

namespace recollect {
namespace {

constexpr int64_t kTinyVocabulary = 320;

// Box-Muller over a fixed generator: the standard's normal_distribution differs between libraries.
class Normal {
 public:
  explicit Normal(uint64_t seed) : bits_(seed) {}
  float operator()() {
    const double u = 1.0 - static_cast<double>(bits_() >> 11) * 0x1p-53;
    const double angle = static_cast<double>(bits_() >> 11) * 0x1p-53 * 2 * std::numbers::pi;
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(angle));
  }

 private:
  std::mt19937_64 bits_;
};

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

FloatTensor RandomTensor(const model::TensorSpec& spec, Normal& normal) {
  FloatTensor tensor{spec.shape, {}};
  int64_t count = 1;
  for (const int64_t extent : spec.shape) count *= extent;
  tensor.values.resize(static_cast<size_t>(count));
  float mean = 0;
  float deviation = 1;
  if (EndsWith(spec.name, "norm.weight")) {
    mean = 1;
    deviation = 0.1f;
  } else if (spec.shape.size() == 2 && spec.name != "embed.weight") {
    // Keeps every row of a product near unit size; queries are larger, so that retrieval weights
    // differ clearly.
    deviation = 1 / std::sqrt(static_cast<float>(spec.shape[1]));
    if (EndsWith(spec.name, "query_proj.weight")) deviation *= 3;
  }
  for (float& value : tensor.values) value = mean + deviation * normal();
  return tensor;
}

}  // namespace

model::ModelConfig TinyConfig() {
  model::ModelConfig config;
  config.architecture = "drt";
  config.vocab_size = kTinyVocabulary;
  config.d = 32;
  config.heads = 2;
  config.head_dim = 16;
  config.ffn = 48;
  config.n_low = 2;
  config.groups = {{.layers = 1, .gca_layers = {0}}, {.layers = 2, .gca_layers = {0}}};
  config.encoder_layers = 1;
  config.encoder_carry = true;
  config.n_ret = 4;
  config.d_r = 32;
  config.lexicon = {.d = 16, .reach = 80};  // more than a block
  config.successors = true;
  config.memory_kv_heads = 2;
  config.local = model::LocalPattern{.window = 127, .dilation = 16, .initial = 0, .span = 256};
  config.adapted_dilations = {8, 16, 32};
  return config;
}

namespace {

// What the families without landmarks share.
model::ModelConfig TinyStack(const std::string& architecture) {
  model::ModelConfig config;
  config.architecture = architecture;
  config.vocab_size = kTinyVocabulary;
  config.lmk_id = model::ModelConfig::kNoLandmark;
  config.d = 32;
  config.heads = 2;
  config.head_dim = 16;
  config.ffn = 64;
  config.ffn_kind = model::FfnKind::kGelu;
  config.n_low = 3;
  config.encoder_layers = config.n_ret = 0;
  config.memory_key_recurrence = false;
  config.context = 256;
  return config;
}

}  // namespace

model::ModelConfig TinyRatPlusConfig() {
  model::ModelConfig config = TinyStack("ratplus");
  config.gate_bias = false;
  config.local =
      model::LocalPattern{.window = 0, .dilation = 16, .initial = 4, .span = model::kUnboundedSpan};
  config.adapted_dilations = {1, 4, 64, model::kNoDilation};
  config.adapted_windows = {.low = 8, .high = 512};
  config.adapted_initials = {.low = 0, .high = 8};
  config.max_context = 1024;
  config.top_k = {.block = 16, .score = model::BlockScore::kQuest, .max = 8};
  return config;
}

model::ModelConfig TinyRatSwaConfig() {
  model::ModelConfig config = TinyStack("rat-swa");
  config.heads = 4;
  config.head_dim = 8;
  config.kv_heads = 2;
  config.mixers = {{.kind = model::MixerKind::kRat, .chunk = 5, .shared_heads = 2},
                   {.kind = model::MixerKind::kAttention, .window = 9}};
  const model::LocalPattern chunks{0, 5, 0, model::kUnboundedSpan};
  const model::LocalPattern window{9, model::kNoDilation, 0, model::kUnboundedSpan};
  config.local = model::LocalPatterns({{chunks}, {window}, {chunks}});
  return config;
}

model::ModelConfig TinyRattentionConfig() {
  model::ModelConfig config = TinyStack("rattention");
  config.heads = 4;
  config.head_dim = 8;
  config.kv_heads = 2;
  config.ffn_kind = model::FfnKind::kGeGlu;
  config.rope_pairs = kernels::RopePairs::kInterleaved;
  config.head_norm_eps = 1e-6f;
  config.mixers = {{.kind = model::MixerKind::kRattention,
                    .window = 11,
                    .qk_norm = true,
                    .learned_tokens = 3,
                    .qk_scale = true},
                   {.kind = model::MixerKind::kAttention,
                    .positions = model::Positions::kNone,
                    .qk_norm = true}};
  const model::LocalPattern window{11, model::kNoDilation, 0, model::kUnboundedSpan};
  const model::LocalPattern all{0, 1, 0, model::kUnboundedSpan};
  config.local = model::LocalPatterns({{window}, {all}, {window}});
  return config;
}

model::ModelConfig TinyDrtPaperConfig() {
  model::ModelConfig config = TinyConfig();
  config.architecture = "drt-paper";
  config.kv_heads = config.heads;
  config.mixers = {
      {.kind = model::MixerKind::kAttention, .positions = model::Positions::kAlibi, .window = 80}};
  config.local = model::LocalPattern{80, model::kNoDilation, 0, model::kUnboundedSpan};
  config.adapted_dilations.clear();
  config.lexicon = {};
  config.successors = false;
  config.encoder_carry = config.memory_key_recurrence = config.score_projections = false;
  config.landmark_at = model::LandmarkAt::kEnd;
  config.landmark_row = model::LandmarkRow::kStream;
  config.landmark_reads = model::LandmarkReads::kPredecessor;
  config.gca_residual = model::GcaResidual::kBypass;
  config.norm_eps = 1e-5f;
  config.encoder_norm_eps = 1e-6f;
  return config;
}

namespace {

// One number of "local": as short as the patterns allow, else by layer and head.
nlohmann::json LocalNumbers(const model::LocalPatterns& patterns,
                            int64_t model::LocalPattern::*field) {
  const auto number = [&](const model::LocalPattern& pattern) -> nlohmann::json {
    const bool unbounded = pattern.*field == model::kUnboundedSpan;
    return unbounded ? nlohmann::json() : nlohmann::json(pattern.*field);
  };
  if (const model::LocalPattern* everywhere = patterns.everywhere()) return number(*everywhere);
  nlohmann::json layers = nlohmann::json::array();
  for (const model::HeadPatterns& heads : patterns.layers()) {
    nlohmann::json numbers = nlohmann::json::array();
    for (const model::LocalPattern& pattern : heads) numbers.push_back(number(pattern));
    layers.push_back(heads.size() == 1 ? numbers[0] : numbers);
  }
  return layers;
}

void AddLandmarkKeys(const model::ModelConfig& config, nlohmann::json& json) {
  json["lmk_id"] = config.lmk_id;
  json["n_low"] = config.n_low;
  json["groups"] = nlohmann::json::array();
  for (const model::GroupConfig& group : config.groups) {
    json["groups"].push_back({{"layers", group.layers}, {"gca_layers", group.gca_layers}});
  }
  json["encoder_layers"] = config.encoder_layers;
  json["n_ret"] = config.n_ret;
  json["d_r"] = config.d_r;
  json["memory_kv_heads"] = config.memory_kv_heads;
  json["gca_residual"] = config.gca_residual == model::GcaResidual::kAdd ? "add" : "bypass";
}

void AddDrtKeys(const model::ModelConfig& config, nlohmann::json& json) {
  AddLandmarkKeys(config, json);
  if (config.min_chunk_tokens > 0) json["min_chunk_tokens"] = config.min_chunk_tokens;
  if (config.lexicon.d > 0) {
    json["lexicon"] = {{"d", config.lexicon.d}, {"reach", config.lexicon.reach}};
  }
  json["successors"] = config.successors;
  json["encoder_carry"] = config.encoder_carry;
  json["memory_key_recurrence"] = config.memory_key_recurrence;
}

nlohmann::json MixerJson(const model::MixerConfig& mixer) {
  constexpr const char* kPositions[] = {"rope", "none", "alibi"};  // as model::Positions
  nlohmann::json json = {{"positions", kPositions[static_cast<int>(mixer.positions)]}};
  if (mixer.kind == model::MixerKind::kRat) {
    json["kind"] = "rat";
    json["chunk"] = mixer.chunk;
    json["shared_heads"] = mixer.shared_heads;
    return json;
  }
  json["kind"] = "attention";
  json["window"] = nullptr;
  if (mixer.window < model::kUnboundedSpan) json["window"] = mixer.window;
  json["qk_norm"] = mixer.qk_norm;
  if (mixer.kind == model::MixerKind::kRattention) {
    json["kind"] = "rattention";
    const bool softmax = mixer.feature_map == kernels::FeatureMap::kSoftmax;
    json["feature_map"] = softmax ? "softmax" : "relu";
    json["learned_tokens"] = mixer.learned_tokens;
    json["qk_scale"] = mixer.qk_scale;
  }
  return json;
}

void AddDrtPaperKeys(const model::ModelConfig& config, nlohmann::json& json) {
  AddLandmarkKeys(config, json);
  const auto choose = [](auto value, const char* first, const char* second) {
    return static_cast<int>(value) == 0 ? first : second;
  };
  json["chunk_tokens"] = config.chunk_tokens;
  json["landmark_at"] = choose(config.landmark_at, "start", "end");
  json["landmark_row"] = choose(config.landmark_row, "cls", "stream");
  json["landmark_reads"] = choose(config.landmark_reads, "own", "predecessor");
  json["gca_softmax"] = choose(config.gca_softmax, "off_by_one", "ordinary");
  json["score_projections"] = config.score_projections;
  json["encoder_norm_eps"] = config.encoder_norm_eps;
}

void AddMixerKeys(const model::ModelConfig& config, nlohmann::json& json) {
  constexpr const char* kFfns[] = {"swiglu", "gelu", "geglu"};  // as model::FfnKind
  if (config.landmarks()) {
    AddDrtPaperKeys(config, json);
  } else {
    json["layers"] = config.n_low;
    if (config.text_documents) json["documents"] = "text";
  }
  if (config.context > 0) json["context"] = config.context;
  json["kv_heads"] = config.kv_heads;
  json["ffn_kind"] = kFfns[static_cast<int>(config.ffn_kind)];
  const bool halves = config.rope_pairs == kernels::RopePairs::kHalves;
  json["rope_pairs"] = halves ? "half" : "interleaved";
  if (config.head_norm_eps > 0) json["head_norm_eps"] = config.head_norm_eps;
  for (const model::MixerConfig& mixer : config.mixers) json["mixers"].push_back(MixerJson(mixer));
}

void AddRatPlusKeys(const model::ModelConfig& config, nlohmann::json& json) {
  json["layers"] = config.n_low;
  if (config.text_documents) json["documents"] = "text";
  json["context"] = config.context;
  const auto add_range = [&](const char* key, const std::optional<model::AdaptedRange>& range) {
    if (range) json[key] = {{"min", range->low}, {"max", range->high}};
  };
  add_range("adapted_windows", config.adapted_windows);
  add_range("adapted_initials", config.adapted_initials);
  if (config.max_context > 0) json["max_context"] = config.max_context;
  if (config.top_k.max > 0) {
    json["top_k"] = {{"block", config.top_k.block},
                     {"score", model::BlockScoreName(config.top_k.score)},
                     {"max", config.top_k.max}};
  }
}

}  // namespace

std::string ConfigJson(const model::ModelConfig& config) {
  nlohmann::json json = {{"format_version", 1},
                         {"architecture", config.architecture},
                         {"vocab_size", config.vocab_size},
                         {"unk_id", config.unk_id},
                         {"eos_id", config.eos_id},
                         {"d", config.d},
                         {"heads", config.heads},
                         {"head_dim", config.head_dim},
                         {"ffn", config.ffn},
                         {"rope_base", config.rope_base},
                         {"norm_eps", config.norm_eps}};
  if (config.mixers[0].kind != model::MixerKind::kRatPlus) {
    AddMixerKeys(config, json);
    return json.dump(2);
  }
  json["recurrence"] = config.recurrence;
  json["adapted_dilations"] = config.adapted_dilations;
  json["local"] = {{"window", LocalNumbers(config.local, &model::LocalPattern::window)},
                   {"dilation", LocalNumbers(config.local, &model::LocalPattern::dilation)},
                   {"initial", LocalNumbers(config.local, &model::LocalPattern::initial)}};
  const nlohmann::json span = LocalNumbers(config.local, &model::LocalPattern::span);
  if (!span.is_null()) json["local"]["span"] = span;
  config.landmarks() ? AddDrtKeys(config, json) : AddRatPlusKeys(config, json);
  return json.dump(2);
}

void WriteSafetensors(const std::string& path, const std::map<std::string, FloatTensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()),
                tensor.values.size() * sizeof(float));
    header[name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  WriteFile(path, file + text + data);
}

std::string SourceDir() {
  const char* carried = std::getenv("RECOLLECT_SOURCE_DIR");
  return carried != nullptr ? carried : RECOLLECT_SOURCE_DIR;
}

void WriteTinyModel(const std::string& directory, const model::ModelConfig& config, uint64_t seed,
                    float sublayers) {
  std::filesystem::create_directories(directory);
  Normal normal(seed);
  std::map<std::string, FloatTensor> tensors;
  for (const model::TensorSpec& spec : model::ExpectedTensors(config)) {
    FloatTensor tensor = RandomTensor(spec, normal);
    if (EndsWith(spec.name, "out_proj.weight")) {
      for (float& value : tensor.values) value *= sublayers;
    }
    if (EndsWith(spec.name, "successor_bias")) tensor.values = {-0.25f};
    tensors.emplace(spec.name, std::move(tensor));
  }
  WriteSafetensors(directory + "/model.safetensors", tensors);
  WriteFile(directory + "/config.json", ConfigJson(config));
  if (config.vocab_size == kTinyVocabulary) {
    WriteFile(directory + "/tokenizer.model",
              ReadFile(SourceDir() + "/tests/support/tiny_tokenizer.model"));
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  RECOLLECT_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::string& path, const std::string& contents) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  file.close();
  RECOLLECT_CHECK(file.good());
}

}  // namespace recollect
