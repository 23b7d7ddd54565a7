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

void ReadBase(Fields& fields, std::vector<std::string>& problems, AdapterConfig& adapter) {
  const json* base = fields.Find("base", true);
  if (base == nullptr) return;
  if (!base->is_object()) {
    return fields.Problem("base", absl::StrCat("is ", base->dump(), ", expected an object"));
  }
  Fields inner(*base, "base.", problems);
  inner.Find("name", false);
  const json* digest = inner.Find("sha256", true);
  if (digest != nullptr && digest->is_string() &&
      digest->get_ref<const std::string&>().size() == kDigestDigits) {
    adapter.base_sha256 = digest->get<std::string>();
  } else if (digest != nullptr) {
    inner.Problem("sha256", absl::StrCat("is ", digest->dump(), ", expected 64 hex digits"));
  }
  inner.ReportUnknown();
}

// Ascending indices of layers from `first` on.
void ReadLayers(Fields& fields, int first, int layers, std::vector<int>& read) {
  const json* list = fields.Find("gca_layers", true);
  if (list == nullptr) return;
  bool good = list->is_array() && !list->empty();
  int64_t least = first;
  for (size_t i = 0; good && i < list->size(); ++i) {
    const json& entry = (*list)[i];
    good =
        entry.is_number_integer() && entry.get<int64_t>() >= least && entry.get<int64_t>() < layers;
    if (!good) break;
    read.push_back(static_cast<int>(entry.get<int64_t>()));
    least = read.back() + 1;
  }
  if (good) return;
  fields.Problem("gca_layers",
                 absl::StrCat("is ", list->dump(), ", expected ascending layers from n_low, ",
                              first, ", to the base's ", layers - 1));
}

}  // namespace

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
  ReadBase(fields, problems, adapter);
  config.n_low = 0;
  fields.Integer("n_low", 1, layers - 1, true, config.n_low);
  ReadLayers(fields, config.n_low, layers, adapter.gca_layers);
  fields.Integer("d_r", 1, kMaxSize, true, config.d_r);
  fields.Integer("d_pointer", 1, kMaxSize, true, adapter.d_pointer);
  fields.Integer("n_ret", 1, kMaxChunkTokens, true, config.n_ret);
  fields.Integer("encoder_layers", 1, kMaxLayers, true, config.encoder_layers);
  fields.Integer("encoder_ffn", 1, kMaxSize, true, adapter.encoder_ffn);
  fields.Integer("words", 1, kMaxSize, true, adapter.words);
  fields.Integer("chunk_tokens", 1, kChunkTokens, true, config.chunk_tokens);
  fields.Integer("min_chunk_tokens", 1, config.chunk_tokens, true, config.min_chunk_tokens);
  fields.Integer("segment_tokens", config.chunk_tokens, kMaxSize, true, adapter.segment_tokens);
  fields.ReportUnknown();
  if (config.context > 0 && adapter.segment_tokens > config.context) {
    fields.Problem("segment_tokens",
                   absl::StrCat("is ", adapter.segment_tokens,
                                ", expected at most the base's context of ", config.context));
  }
  if (!problems.empty()) return ProblemsError(problems);
  config.groups = {{.layers = layers - config.n_low, .gca_layers = {}}};
  config.memory_kv_heads = config.kv_heads;
  config.text_documents = false;
  return absl::OkStatus();
}

}  // namespace recollect::model
