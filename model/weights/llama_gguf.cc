#include "model/weights/llama_gguf.h"

#include <cmath>

#include "base/status.h"
#include "model/config/llama_config.h"
#include "model/config/problems.h"
#include "model/weights/gguf_cursor.h"

namespace recollect::model {
namespace {

constexpr char kPrefix[] = "llama.";  // of the architecture's keys
constexpr char kFrequencies[] = "rope_freqs.weight";
// LLaMA's `</s>`: of a SentencePiece vocabulary whose file names no end, as llama.cpp has it.
constexpr int32_t kDefaultEnd = 2;

// The values of the architecture's keys, without the prefix of their names, as far as they are
// numbers or strings; an empty list stands for others.
nlohmann::json ArchitectureKeys(const GgufMetadata& metadata) {
  nlohmann::json keys = nlohmann::json::object();
  for (const std::string_view key : metadata.keys()) {
    if (!key.starts_with(kPrefix)) continue;
    nlohmann::json& value = keys[std::string(key.substr(std::string_view(kPrefix).size()))];
    value = nlohmann::json::array();
    if (const auto number = metadata.GetInt(key); number.ok()) value = *number;
    if (const auto number = metadata.GetFloat(key); number.ok()) value = *number;
    if (const auto text = metadata.GetString(key); text.ok()) value = GgufQuoted(*text);
  }
  return keys;
}

void ReadSizes(const GgufFile& file, Fields& keys, ModelConfig& config) {
  ReadLlamaSizes(keys,
                 {.d = "embedding_length",
                  .ffn = "feed_forward_length",
                  .layers = "block_count",
                  .context = "context_length",
                  .heads = "attention.head_count",
                  .kv_heads = "attention.head_count_kv",
                  .head_dim = "attention.key_length"},
                 config);
  keys.Number("attention.layer_norm_rms_epsilon", 1e-12, 1.0, config.norm_eps, true);
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding != file.tensors().end() && embedding->second.shape.size() == 2) {
    config.vocab_size = embedding->second.shape[0];  // what the file's tensors are checked against
  }
  keys.Integer("vocab_size", 1, kMaxSize, config.vocab_size == 0, config.vocab_size);
  config.tied_head = !file.tensors().contains("output.weight");
  // Sizes that this family does not have apart.
  for (const char* same : {"attention.value_length", "rope.dimension_count"}) {
    int64_t width = config.head_dim;
    keys.Integer(same, 1, kMaxSize, false, width);
    if (width != config.head_dim) {
      keys.Expected(same, absl::StrCat("the heads' ", config.head_dim));
    }
  }
  int64_t experts = 0;
  keys.Integer("expert_count", 0, kMaxSize, false, experts);
  if (experts > 0) keys.Expected("expert_count", "a model without experts");
}

// Divisors that the file has as a tensor, as LLaMA 3's files do.
void ReadFrequencies(const GgufFile& file, std::vector<std::string>& problems,
                     ModelConfig& config) {
  const TensorInfo& info = file.tensors().at(kFrequencies);
  if (info.shape != std::vector<int64_t>{config.head_dim / 2}) {
    problems.push_back(absl::StrCat(kFrequencies, " is ", ShapeText(info.shape),
                                    ", the config expects ", ShapeText({config.head_dim / 2})));
    return;
  }
  const auto divisors = file.ReadFloats(kFrequencies);
  if (!divisors.ok()) {
    problems.emplace_back(divisors.status().message());
    return;
  }
  for (const float divisor : *divisors) {
    if (!(divisor > 0) || !std::isfinite(divisor)) {
      problems.push_back(
          absl::StrCat(kFrequencies, " has ", divisor, ", expected numbers above 0"));
      return;
    }
    config.rope_divisors.push_back(divisor);
  }
}

void ReadRope(const GgufFile& file, Fields& keys, std::vector<std::string>& problems,
              ModelConfig& config) {
  config.rope_pairs = kernels::RopePairs::kInterleaved;  // how such files have Q's and K's rows
  keys.Number("rope.freq_base", 1.0, 1e12, config.rope_base);
  if (file.tensors().contains(kFrequencies)) return ReadFrequencies(file, problems, config);
  const bool linear = keys.Choice("rope.scaling.type", false, {"none", "linear"}) == 1;
  double factor = 1;
  keys.Number("rope.scale_linear", 1.0, 1e6, factor);  // of older files
  if (linear) keys.Number("rope.scaling.factor", 1.0, 1e6, factor, true);
  if (factor != 1) config.rope_divisors.assign(static_cast<size_t>(config.head_dim / 2), factor);
}

bool HasLlamaTokenizer(const GgufMetadata& metadata) {
  const auto model = metadata.GetString("tokenizer.ggml.model");
  return model.ok() && *model == "llama";
}

// The ends of a text and of a turn.
void ReadEosIds(const GgufMetadata& metadata, std::vector<std::string>& problems,
                std::vector<int32_t>& ids) {
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const auto id = metadata.GetInt(key);
    if (absl::IsNotFound(id.status()) && ids.empty() && HasLlamaTokenizer(metadata)) {
      ids.push_back(kDefaultEnd);
      continue;
    }
    if (!id.ok()) {
      if (ids.empty() || !absl::IsNotFound(id.status())) {
        problems.emplace_back(id.status().message());
      }
      return;
    }
    if (*id < 0 || *id > kMaxSize) {
      problems.push_back(absl::StrCat(key, " is ", *id, ", expected an id"));
    } else if (ids.empty() || ids.front() != *id) {
      ids.push_back(static_cast<int32_t>(*id));
    }
  }
}

}  // namespace

absl::StatusOr<ModelConfig> LlamaConfigFromGguf(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view architecture,
                   file.metadata().GetString("general.architecture"));
  std::vector<std::string> problems;
  if (architecture != "llama") {
    return ProblemsError({absl::StrCat("general.architecture is \"", std::string(architecture),
                                       "\", expected \"llama\"")});
  }
  const nlohmann::json values = ArchitectureKeys(file.metadata());
  Fields keys(values, kPrefix, problems);
  ModelConfig config;
  ReadSizes(file, keys, config);
  ReadRope(file, keys, problems, config);
  std::vector<int32_t> ends;
  ReadEosIds(file.metadata(), problems, ends);
  CompleteLlama(ends, problems, config);
  if (!problems.empty()) return ProblemsError(problems);
  return config;
}

}  // namespace recollect::model
