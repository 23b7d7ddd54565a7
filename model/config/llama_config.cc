#include "model/config/llama_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/status.h"
#include "model/config/problems.h"

namespace recollect::model {
namespace {

using nlohmann::json;

constexpr double kMaxRopeBase = 1e12, kMaxFactor = 1e6;

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
                 ModelConfig& config) {
  Fields fields(object, prefix, problems);
  const bool old = object.contains("type") && !object.contains("rope_type");
  const char* key = old ? "type" : "rope_type";
  const int type = fields.Choice(key, true, {"default", "linear", "llama3"});
  fields.Number("rope_theta", 1.0, kMaxRopeBase, config.rope_base);
  if (type <= 0 || config.head_dim <= 0) return;
  Llama3Scaling scaling;
  fields.Number("factor", 1.0, kMaxFactor, scaling.factor, true);
  if (type == 1) {
    config.rope_divisors.assign(static_cast<size_t>(config.head_dim / 2), scaling.factor);
    return;
  }
  fields.Number("low_freq_factor", 1e-6, kMaxFactor, scaling.low_freq_factor, true);
  fields.Number("high_freq_factor", 1e-6, kMaxFactor, scaling.high_freq_factor, true);
  fields.Integer("original_max_position_embeddings", 1, kUnboundedSpan, true,
                 scaling.original_context);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    fields.Problem("high_freq_factor",
                   absl::StrCat("is ", scaling.high_freq_factor,
                                ", expected above low_freq_factor ", scaling.low_freq_factor));
    return;
  }
  config.rope_divisors = RopeDivisors(scaling, config.rope_base, config.head_dim);
}

void ReadRope(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  fields.Number("rope_theta", 1.0, kMaxRopeBase, config.rope_base);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* value = fields.Find(key, false);
    if (value == nullptr || value->is_null()) continue;
    if (value->is_object()) {
      ReadScaling(*value, absl::StrCat(key, "."), problems, config);
    } else {
      fields.Expected(key, "an object");
    }
  }
}

void CheckLlama(const ModelConfig& config, const std::vector<int32_t>& ends,
                std::vector<std::string>& problems) {
  if (config.heads > 0 && config.kv_heads > 0 && config.heads % config.kv_heads != 0) {
    problems.push_back(absl::StrCat(config.kv_heads, " key-value heads, expected a divisor of ",
                                    config.heads, " heads"));
  }
  if (config.head_dim < 2 || config.head_dim % 2 != 0) {
    problems.push_back(
        absl::StrCat("heads of ", config.head_dim, " channels, expected an even number"));
  }
  if (config.inner() > kMaxSize) {
    problems.push_back(absl::StrCat(config.heads, " heads of ", config.head_dim,
                                    " channels, expected at most ", kMaxSize, " in all"));
  }
  for (const int32_t id : ends) {
    if (config.vocab_size <= 0 || id < config.vocab_size) continue;
    problems.push_back(absl::StrCat("end-of-text id ", id, ", expected below the vocabulary's ",
                                    config.vocab_size));
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

void ReadLlamaSizes(Fields& fields, const LlamaSizeNames& names, ModelConfig& config) {
  fields.Integer(names.d, 1, kMaxSize, true, config.d);
  fields.Integer(names.ffn, 1, kMaxSize, true, config.ffn);
  fields.Integer(names.layers, 1, kMaxLayers, true, config.n_low);
  fields.Integer(names.context, 1, kUnboundedSpan, true, config.context);
  fields.Integer(names.heads, 1, kMaxLayers, true, config.heads);
  config.kv_heads = config.heads;
  OptionalInteger(fields, names.kv_heads, 1, kMaxLayers, config.kv_heads);
  config.head_dim = static_cast<int>(config.d / std::max(config.heads, 1));
  OptionalInteger(fields, names.head_dim, 2, kMaxLayers, config.head_dim);
}

void CompleteLlama(const std::vector<int32_t>& ends, std::vector<std::string>& problems,
                   ModelConfig& config) {
  CheckLlama(config, ends, problems);
  config.architecture = "llama";
  config.unk_id = ModelConfig::kNoUnknown;
  config.lmk_id = ModelConfig::kNoLandmark;
  if (!ends.empty()) {
    config.eos_id = ends.front();
    config.more_eos_ids.assign(ends.begin() + 1, ends.end());
  }
  config.gate_bias = false;
  config.mixers = {{.kind = MixerKind::kAttention}};
  config.encoder_layers = config.n_ret = 0;
  config.memory_key_recurrence = config.recurrence = false;
  config.encoder_norm_eps = config.norm_eps;
  config.max_context = config.context;
  // Everything before: a dilation of 1 keeps all positions beyond a window of none.
  config.local = LocalPattern{.window = 0, .dilation = 1, .initial = 0, .span = kUnboundedSpan};
  config.any_patterns = true;
  config.KeepText();
}

bool IsHubConfig(const json& root) { return root.is_object() && root.contains("model_type"); }

absl::StatusOr<ModelConfig> LlamaConfigFromHub(const json& root) {
  std::vector<std::string> problems;
  Fields fields(root, "", problems);
  if (fields.Choice("model_type", true, {"llama"}) < 0) return ProblemsError(problems);
  ModelConfig config;
  config.tied_head = false;
  fields.Integer("vocab_size", 1, kMaxSize, true, config.vocab_size);
  ReadLlamaSizes(fields,
                 {.d = "hidden_size",
                  .ffn = "intermediate_size",
                  .layers = "num_hidden_layers",
                  .context = "max_position_embeddings",
                  .heads = "num_attention_heads",
                  .kv_heads = "num_key_value_heads",
                  .head_dim = "head_dim"},
                 config);
  ReadRope(fields, problems, config);
  fields.Number("rms_norm_eps", 1e-12, 1.0, config.norm_eps);
  fields.Choice("hidden_act", false, {"silu"});
  RefuseTrue(fields, "attention_bias");
  RefuseTrue(fields, "mlp_bias");
  fields.Bool("tie_word_embeddings", config.tied_head);
  if (const json* value = fields.Find("quantization_config", false); value && !value->is_null()) {
    fields.Problem("quantization_config", "is set, expected weights that are not quantised");
  }
  std::vector<int32_t> ends;
  ReadEosIds(fields, ends);
  CompleteLlama(ends, problems, config);
  if (!problems.empty()) return ProblemsError(problems);
  return config;
}

}  // namespace recollect::model
