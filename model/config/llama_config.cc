#include "model/config/llama_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/status.h"
#include "model/config/config_fields.h"
#include "model/config/problems.h"

namespace recollect::model {
namespace {

using nlohmann::json;

constexpr double kMostRopeBase = 1e12, kMostFactor = 1e6;

// As Fields::Integer, and null is as good as absent.
template <typename T>
void OptionalInteger(Fields& fields, const std::string& key, int64_t low, int64_t high, T& out) {
  const json* value = fields.Find(key, false);
  if (value != nullptr && !value->is_null()) fields.Integer(key, low, high, false, out);
}

void RefuseTrue(Fields& fields, const std::string& key) {
  const json* value = fields.Find(key, false);
  if (value == nullptr || *value == false || value->is_null()) return;
  fields.Expected(key, "false: no biases");
}

// One id or a list of them.
void ReadEosIds(Fields& fields, std::vector<int32_t>& ids) {
  const json* value = fields.Find("eos_token_id", true);
  if (value == nullptr) return;
  const std::vector<json> entries =
      value->is_array() ? std::vector<json>(*value) : std::vector{*value};
  for (const json& entry : entries) {
    const bool good =
        entry.is_number_integer() && entry.get<int64_t>() >= 0 && entry.get<int64_t>() <= kMaxSize;
    if (good) ids.push_back(static_cast<int32_t>(entry.get<int64_t>()));
  }
  if (ids.size() == entries.size() && !ids.empty()) return;
  fields.Expected("eos_token_id", "ids");
}

// "rope_scaling", or the object of newer files that has the base as well.
void ReadScaling(const json& object, const std::string& prefix, std::vector<std::string>& problems,
                 LlamaShape& shape) {
  Fields fields(object, prefix, problems);
  const bool old = object.contains("type") && !object.contains("rope_type");
  const char* key = old ? "type" : "rope_type";
  const int type = fields.Choice(key, true, {"default", "linear", "llama3"});
  fields.Number("rope_theta", 1.0, kMostRopeBase, shape.rope_base);
  if (type <= 0 || shape.head_dim <= 0) return;
  Llama3Scaling scaling;
  fields.Find("factor", true);
  fields.Number("factor", 1.0, kMostFactor, scaling.factor);
  if (type == 1) {
    shape.rope_divisors.assign(static_cast<size_t>(shape.head_dim / 2), scaling.factor);
    return;
  }
  for (const char* required : {"low_freq_factor", "high_freq_factor"}) fields.Find(required, true);
  fields.Number("low_freq_factor", 1e-6, kMostFactor, scaling.low_freq_factor);
  fields.Number("high_freq_factor", 1e-6, kMostFactor, scaling.high_freq_factor);
  fields.Integer("original_max_position_embeddings", 1, kUnboundedSpan, true,
                 scaling.original_context);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    fields.Problem("high_freq_factor",
                   absl::StrCat("is ", scaling.high_freq_factor,
                                ", expected above low_freq_factor ", scaling.low_freq_factor));
    return;
  }
  shape.rope_divisors = RopeDivisors(scaling, shape.rope_base, shape.head_dim);
}

void ReadRope(Fields& fields, std::vector<std::string>& problems, LlamaShape& shape) {
  fields.Number("rope_theta", 1.0, kMostRopeBase, shape.rope_base);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* value = fields.Find(key, false);
    if (value == nullptr || value->is_null()) continue;
    if (value->is_object()) {
      ReadScaling(*value, absl::StrCat(key, "."), problems, shape);
    } else {
      fields.Expected(key, "an object");
    }
  }
}

void ReadSizes(Fields& fields, LlamaShape& shape) {
  fields.Integer("vocab_size", 1, kMaxSize, true, shape.vocab_size);
  fields.Integer("hidden_size", 1, kMaxSize, true, shape.d);
  fields.Integer("intermediate_size", 1, kMaxSize, true, shape.ffn);
  fields.Integer("num_hidden_layers", 1, kMaxLayers, true, shape.layers);
  fields.Integer("num_attention_heads", 1, kMaxLayers, true, shape.heads);
  fields.Integer("max_position_embeddings", 1, kUnboundedSpan, true, shape.context);
  shape.kv_heads = shape.heads;
  OptionalInteger(fields, "num_key_value_heads", 1, kMaxLayers, shape.kv_heads);
  shape.head_dim = static_cast<int>(shape.d / std::max(shape.heads, 1));
  OptionalInteger(fields, "head_dim", 2, kMaxLayers, shape.head_dim);
}

void CheckLlama(const LlamaShape& shape, std::vector<std::string>& problems) {
  if (shape.heads > 0 && shape.kv_heads > 0 && shape.heads % shape.kv_heads != 0) {
    problems.push_back(absl::StrCat(shape.kv_heads, " key-value heads, expected a divisor of ",
                                    shape.heads, " heads"));
  }
  if (shape.head_dim < 2 || shape.head_dim % 2 != 0) {
    problems.push_back(
        absl::StrCat("heads of ", shape.head_dim, " channels, expected an even number"));
  }
  if (int64_t{shape.heads} * shape.head_dim > kMaxSize) {
    problems.push_back(absl::StrCat(shape.heads, " heads of ", shape.head_dim,
                                    " channels, expected at most ", kMaxSize, " in all"));
  }
  for (const int32_t id : shape.eos_ids) {
    if (shape.vocab_size <= 0 || id < shape.vocab_size) continue;
    problems.push_back(absl::StrCat("end-of-text id ", id, ", expected below the vocabulary's ",
                                    shape.vocab_size));
  }
}

}  // namespace

std::vector<double> RopeDivisors(const Llama3Scaling& scaling, double base, int head_dim) {
  const auto original = static_cast<double>(scaling.original_context);
  std::vector<double> divisors;
  for (int j = 0; j < head_dim / 2; ++j) {
    const double wavelength = 2 * std::numbers::pi * std::pow(base, 2.0 * j / head_dim);
    // 0: the frequency is divided, 1: it stays.
    const double kept = std::clamp((original / wavelength - scaling.low_freq_factor) /
                                       (scaling.high_freq_factor - scaling.low_freq_factor),
                                   0.0, 1.0);
    divisors.push_back(1 / ((1 - kept) / scaling.factor + kept));
  }
  return divisors;
}

ModelConfig LlamaConfig(const LlamaShape& shape, std::vector<std::string>& problems) {
  CheckLlama(shape, problems);
  ModelConfig config;
  config.architecture = "llama";
  config.vocab_size = shape.vocab_size;
  config.tied_head = shape.tied_head;
  config.unk_id = ModelConfig::kNoUnknown;
  config.lmk_id = ModelConfig::kNoLandmark;
  if (!shape.eos_ids.empty()) {
    config.eos_id = shape.eos_ids.front();
    config.more_eos_ids.assign(shape.eos_ids.begin() + 1, shape.eos_ids.end());
  }
  config.d = shape.d;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.ffn = shape.ffn;
  config.gate_bias = false;
  config.mixers = {{.kind = MixerKind::kAttention}};
  config.n_low = shape.layers;
  config.encoder_layers = config.n_ret = 0;
  config.memory_key_recurrence = config.recurrence = false;
  config.rope_base = shape.rope_base;
  config.rope_pairs = shape.rope_pairs;
  config.rope_divisors = shape.rope_divisors;
  config.norm_eps = config.encoder_norm_eps = static_cast<float>(shape.norm_eps);
  config.context = config.max_context = shape.context;
  // Everything before: a dilation of 1 keeps all positions beyond a window of none.
  config.local = LocalPattern{.window = 0, .dilation = 1, .initial = 0, .span = kUnboundedSpan};
  config.any_patterns = true;
  config.KeepText();
  return config;
}

bool IsHubConfig(const json& root) { return root.is_object() && root.contains("model_type"); }

absl::StatusOr<ModelConfig> LlamaConfigFromHub(const json& root) {
  std::vector<std::string> problems;
  Fields fields(root, "", problems);
  if (fields.Choice("model_type", true, {"llama"}) < 0) return ProblemsError(problems);
  LlamaShape shape;
  shape.tied_head = false;
  shape.norm_eps = 1e-6;
  ReadSizes(fields, shape);
  ReadRope(fields, problems, shape);
  fields.Number("rms_norm_eps", 1e-12, 1.0, shape.norm_eps);
  fields.Choice("hidden_act", false, {"silu"});
  RefuseTrue(fields, "attention_bias");
  RefuseTrue(fields, "mlp_bias");
  fields.Bool("tie_word_embeddings", shape.tied_head);
  if (const json* value = fields.Find("quantization_config", false); value && !value->is_null()) {
    fields.Problem("quantization_config", "is set, expected weights that are not quantised");
  }
  ReadEosIds(fields, shape.eos_ids);
  ModelConfig config = LlamaConfig(shape, problems);
  if (!problems.empty()) return ProblemsError(problems);
  return config;
}

}  // namespace recollect::model
