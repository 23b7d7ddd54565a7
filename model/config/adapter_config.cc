#include "model/config/adapter_config.h"

#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/config/config_fields.h"
#include "model/config/problems.h"

namespace recollect::model {
namespace {

using nlohmann::json;

constexpr int kAdapterFormat = 1;
constexpr size_t kDigestDigits = 64;  // of SHA-256 in hex
constexpr char kShares[] = "score_shares";
constexpr double kMaxShare = 100;

void ReadBase(Fields& base, AdapterConfig& adapter) {
  base.Find("name", false);
  const json* digest = base.Find("sha256", true);
  if (digest != nullptr && digest->is_string() &&
      digest->get_ref<const std::string&>().size() == kDigestDigits) {
    adapter.base_sha256 = digest->get<std::string>();
  } else if (digest != nullptr) {
    base.Expected("sha256", "64 hex digits");
  }
}

void ReadShares(Fields& shares, AdapterConfig& adapter) {
  shares.Number("dense", 0, kMaxShare, adapter.dense_share, /*required=*/true);
  shares.Number("sparse", 0, kMaxShare, adapter.sparse_share, /*required=*/true);
}

}  // namespace

std::string WithoutQueryKeys(const std::string& text) {
  auto root = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || root.erase(kShares) == 0) return text;
  return absl::StrCat(root.dump(2, ' ', /*ensure_ascii=*/true), "\n");
}

absl::Status AddAdapter(const std::string& text, ModelConfig& config) {
  ASSIGN_OR_RETURN(const json root, ParseJson(text, EqualKeys::kRefused));
  if (!root.is_object()) return absl::InvalidArgumentError("not a JSON object");
  if (config.landmarks() || !config.rewinds()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the base is of family ", config.architecture,
                     ", expected one whose layers keep keys and values by position: llama"));
  }
  std::vector<std::string> problems;
  Fields fields(root, "", problems);
  int format = 0;
  const int layers = config.layers();
  AdapterConfig& adapter = config.adapter;
  fields.Integer("format", kAdapterFormat, kAdapterFormat, true, format);
  fields.Object("base", true, [&](Fields& base) { ReadBase(base, adapter); });
  config.n_low = 0;
  fields.Integer("n_low", 1, layers - 1, true, config.n_low);
  fields.Layers(
      "gca_layers", config.n_low, layers,
      absl::StrCat("ascending layers from n_low, ", config.n_low, ", to the base's ", layers - 1),
      adapter.gca_layers);
  fields.Integer("d_r", 1, kMaxSize, true, config.d_r);
  fields.Integer("d_pointer", 1, kMaxSize, true, adapter.d_pointer);
  fields.Integer("n_ret", 1, kMaxChunkTokens, true, config.n_ret);
  fields.Integer("encoder_layers", 1, kMaxLayers, true, config.encoder_layers);
  fields.Integer("encoder_ffn", 1, kMaxSize, true, adapter.encoder_ffn);
  fields.Integer("words", 1, kMaxSize, true, adapter.words);
  fields.Integer("chunk_tokens", 1, kChunkTokens, true, config.chunk_tokens);
  fields.Integer("min_chunk_tokens", 1, config.chunk_tokens, true, config.min_chunk_tokens);
  fields.Integer("segment_tokens", config.chunk_tokens, kMaxSize, true, adapter.segment_tokens);
  fields.Object(kShares, false, [&](Fields& shares) { ReadShares(shares, adapter); });
  fields.ReportUnknown();
  if (config.context > 0 && adapter.segment_tokens > config.context) {
    fields.Expected("segment_tokens",
                    absl::StrCat("at most the base's context of ", config.context));
  }
  if (!problems.empty()) return ProblemsError(problems);
  config.groups = {{.layers = layers - config.n_low, .gca_layers = {}}};
  config.memory_kv_heads = config.kv_heads;
  config.text_documents = false;
  return absl::OkStatus();
}

}  // namespace recollect::model
