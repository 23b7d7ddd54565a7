#include "model/weights/llama_gguf.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "model/config/config_fields.h"
#include "model/config/llama_config.h"
#include "model/config/problems.h"

namespace recollect::model {
namespace {

constexpr char kFrequencies[] = "rope_freqs.weight";
// LLaMA's `</s>`: of a SentencePiece vocabulary whose file names no end, as llama.cpp has it.
constexpr int32_t kDefaultEnd = 2;

// Reads values of the architecture's keys, which begin with its name, and collects problems.
class Keys {
 public:
  Keys(const GgufMetadata& metadata, std::vector<std::string>& problems)
      : metadata_(metadata), problems_(problems) {}

  static std::string Name(const char* key) { return absl::StrCat("llama.", key); }
  bool Has(const char* key) const { return metadata_.Has(Name(key)); }

  template <typename T>
  void Integer(const char* key, int64_t low, int64_t high, bool required, T& out) {
    int64_t value = 0;
    if (!Read(metadata_.GetInt(Name(key)), required, value)) return;
    if (value < low || value > high) return OutOfRange(key, value, low, high);
    out = static_cast<T>(value);
  }

  void Number(const char* key, double low, double high, bool required, double& out) {
    double value = 0;
    if (!Read(metadata_.GetFloat(Name(key)), required, value)) return;
    if (!(value >= low && value <= high)) return OutOfRange(key, value, low, high);
    out = value;
  }

 private:
  // A key that is not there leaves `out` as it is.
  template <typename T>
  bool Read(const absl::StatusOr<T>& value, bool required, T& out) {
    if (value.ok()) out = *value;
    if (!value.ok() && (required || !absl::IsNotFound(value.status()))) {
      problems_.emplace_back(value.status().message());
    }
    return value.ok();
  }
  template <typename T>
  void OutOfRange(const char* key, T value, T low, T high) {
    problems_.push_back(absl::StrCat(Name(key), " is ", value, ", expected ", low, " to ", high));
  }

  const GgufMetadata& metadata_;
  std::vector<std::string>& problems_;
};

void ReadSizes(const GgufFile& file, Keys& keys, std::vector<std::string>& problems,
               LlamaShape& shape) {
  keys.Integer("embedding_length", 1, kMaxSize, true, shape.d);
  keys.Integer("feed_forward_length", 1, kMaxSize, true, shape.ffn);
  keys.Integer("block_count", 1, kMaxLayers, true, shape.layers);
  keys.Integer("context_length", 1, kUnboundedSpan, true, shape.context);
  keys.Integer("attention.head_count", 1, kMaxLayers, true, shape.heads);
  shape.kv_heads = shape.heads;
  keys.Integer("attention.head_count_kv", 1, kMaxLayers, false, shape.kv_heads);
  shape.head_dim = static_cast<int>(shape.d / std::max(shape.heads, 1));
  keys.Integer("attention.key_length", 2, kMaxLayers, false, shape.head_dim);
  keys.Number("attention.layer_norm_rms_epsilon", 1e-12, 1.0, true, shape.norm_eps);
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding != file.tensors().end() && embedding->second.shape.size() == 2) {
    shape.vocab_size = embedding->second.shape[0];  // what the file's tensors are checked against
  }
  keys.Integer("vocab_size", 1, kMaxSize, shape.vocab_size == 0, shape.vocab_size);
  shape.tied_head = !file.tensors().contains("output.weight");
  // Sizes that this family does not have apart.
  for (const char* same : {"attention.value_length", "rope.dimension_count"}) {
    int64_t width = shape.head_dim;
    keys.Integer(same, 1, kMaxSize, false, width);
    if (width == shape.head_dim) continue;
    problems.push_back(
        absl::StrCat(Keys::Name(same), " is ", width, ", expected the heads' ", shape.head_dim));
  }
  int64_t experts = 0;
  keys.Integer("expert_count", 0, kMaxSize, false, experts);
  if (experts > 0) {
    problems.push_back(
        absl::StrCat("llama.expert_count is ", experts, ", expected a model without experts"));
  }
}

// Divisors that the file has as a tensor, as LLaMA 3's files do.
void ReadFrequencies(const GgufFile& file, std::vector<std::string>& problems, LlamaShape& shape) {
  const TensorInfo& info = file.tensors().at(kFrequencies);
  if (info.shape != std::vector<int64_t>{shape.head_dim / 2}) {
    problems.push_back(absl::StrCat(kFrequencies, " is ", ShapeText(info.shape),
                                    ", the config expects ", ShapeText({shape.head_dim / 2})));
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
    shape.rope_divisors.push_back(divisor);
  }
}

void ReadRope(const GgufFile& file, Keys& keys, std::vector<std::string>& problems,
              LlamaShape& shape) {
  shape.rope_pairs = kernels::RopePairs::kInterleaved;  // how such files have Q's and K's rows
  keys.Number("rope.freq_base", 1.0, 1e12, false, shape.rope_base);
  if (file.tensors().contains(kFrequencies)) return ReadFrequencies(file, problems, shape);
  std::string_view type = "none";
  if (keys.Has("rope.scaling.type")) {
    const auto read = file.metadata().GetString("llama.rope.scaling.type");
    if (read.ok()) type = *read;
    if (!read.ok()) problems.emplace_back(read.status().message());
  }
  double factor = 1;
  keys.Number("rope.scale_linear", 1.0, 1e6, false, factor);  // of older files
  if (type == "linear") keys.Number("rope.scaling.factor", 1.0, 1e6, true, factor);
  if (type != "linear" && type != "none") {
    problems.push_back(absl::StrCat("llama.rope.scaling.type is \"", std::string(type),
                                    "\", expected \"none\" or \"linear\""));
  }
  if (factor != 1) shape.rope_divisors.assign(static_cast<size_t>(shape.head_dim / 2), factor);
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
  LlamaShape shape;
  Keys keys(file.metadata(), problems);
  ReadSizes(file, keys, problems, shape);
  ReadRope(file, keys, problems, shape);
  ReadEosIds(file.metadata(), problems, shape.eos_ids);
  ModelConfig config = LlamaConfig(shape, problems);
  if (!problems.empty()) return ProblemsError(problems);
  return config;
}

}  // namespace recollect::model
