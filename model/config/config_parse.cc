// ParseConfig: config.json to a struct, with every problem at once.
#include <algorithm>
#include <string_view>

#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/status.h"
#include "base/types.h"
#include "model/config/config.h"
#include "model/config/config_fields.h"
#include "model/config/problems.h"

namespace recollect::model {
namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;

void ReadGroups(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  const json* groups = fields.Find("groups", true);
  if (groups == nullptr) return;
  if (!groups->is_array() || groups->empty()) {
    fields.Problem("groups", absl::StrCat("is ", groups->dump(), ", expected a list of groups"));
    return;
  }
  int64_t layers = 0;  // of all groups
  for (size_t g = 0; g < groups->size(); ++g) {
    const std::string name = absl::StrCat("groups[", g, "]");
    GroupConfig group;
    if (!(*groups)[g].is_object()) {
      problems.push_back(absl::StrCat(name, " is ", (*groups)[g].dump(), ", expected an object"));
      continue;
    }
    Fields inner((*groups)[g], name + ".", problems);
    inner.Integer("layers", 1, kMaxLayers, true, group.layers);
    if (const json* list = inner.Find("gca_layers", true)) {
      bool good = list->is_array() && !list->empty();
      int64_t previous = -1;
      for (size_t i = 0; good && i < list->size(); ++i) {
        const json& entry = (*list)[i];
        good = entry.is_number_unsigned() && entry.get<uint64_t>() < uint64_t(group.layers) &&
               entry.get<int64_t>() > previous;
        if (good) group.gca_layers.push_back(static_cast<int>(previous = entry.get<int64_t>()));
      }
      if (!good) {
        inner.Problem("gca_layers",
                      absl::StrCat("is ", list->dump(), ", expected ascending indices from 0 to ",
                                   group.layers - 1));
      }
    }
    inner.ReportUnknown();
    layers += group.layers;
    if (layers <= kMaxLayers) config.groups.push_back(std::move(group));
  }
  if (layers > kMaxLayers) {
    fields.Problem("groups",
                   absl::StrCat("have ", layers, " layers, expected at most ", kMaxLayers));
  }
}

void CheckRelations(const ModelConfig& config, std::vector<std::string>& problems) {
  if (config.head_dim % 2 != 0) {
    problems.push_back(absl::StrCat("head_dim is ", config.head_dim, ", expected an even number"));
  }
  if (config.heads > 0 && config.memory_kv_heads > 0 &&
      config.heads % config.memory_kv_heads != 0) {
    problems.push_back(absl::StrCat("memory_kv_heads is ", config.memory_kv_heads,
                                    ", expected a divisor of heads ", config.heads));
  }
  if (config.heads > 0 && config.inner() > kMaxSize) {
    problems.push_back(
        absl::StrCat("heads * head_dim is ", config.inner(), ", expected at most ", kMaxSize));
  }
  // In this order; the landmark only where there is one.
  std::vector<std::pair<const char*, int32_t>> ids = {{"unk_id", config.unk_id}};
  if (config.landmarks()) ids.emplace_back("lmk_id", config.lmk_id);
  ids.emplace_back("eos_id", config.eos_id);
  std::vector<std::string> names;
  std::set<int32_t> values;
  for (const auto& [name, id] : ids) {
    names.push_back(name);
    values.insert(id);
    if (config.vocab_size > 0 && id >= config.vocab_size) {
      problems.push_back(
          absl::StrCat(name, " is ", id, ", expected below vocab_size ", config.vocab_size));
    }
  }
  if (values.size() < ids.size()) {
    const auto id_text = [](std::string* out, const auto& id) { absl::StrAppend(out, id.second); };
    problems.push_back(absl::StrCat(absl::StrJoin(names, ", "), " are ",
                                    absl::StrJoin(ids, ", ", id_text), ", expected ", ids.size(),
                                    " different ids"));
  }
}

// One of a switch's two values, named `first` and `second` in config.json.
template <typename T>
void ReadSwitch(Fields& fields, const char* key, const char* first, const char* second, T& out) {
  const int choice = fields.Choice(key, true, {first, second});
  if (choice >= 0) out = static_cast<T>(choice);
}

// Lower layers, groups of upper layers with GCA, the chunk encoder and memory.
void ReadLandmarks(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  fields.Integer("lmk_id", 0, kMaxSize, false, config.lmk_id);
  fields.Integer("n_low", 1, kMaxLayers, true, config.n_low);
  ReadGroups(fields, problems, config);
  fields.Integer("encoder_layers", 1, kMaxLayers, false, config.encoder_layers);
  fields.Integer("n_ret", 1, kMaxLayers, false, config.n_ret);
  fields.Integer("d_r", 1, kMaxSize, true, config.d_r);
  fields.Integer("memory_kv_heads", 1, kMaxLayers, true, config.memory_kv_heads);
  if (fields.Choice("gca_residual", false, {"add", "bypass"}) == 1) {
    config.gca_residual = GcaResidual::kBypass;
  }
}

void ReadLexicon(const json& object, std::vector<std::string>& problems, LexiconConfig& lexicon) {
  if (!object.is_object()) {
    problems.push_back(absl::StrCat("lexicon is ", object.dump(), ", expected an object"));
    return;
  }
  Fields fields(object, "lexicon.", problems);
  fields.Integer("d", 1, kMaxSize, true, lexicon.d);
  fields.Integer("reach", 1, kMaxLexiconReach, true, lexicon.reach);
  fields.ReportUnknown();
}

void ReadPointer(const json& object, std::vector<std::string>& problems, PointerConfig& pointer) {
  if (!object.is_object()) {
    problems.push_back(absl::StrCat("pointer is ", object.dump(), ", expected an object"));
    return;
  }
  Fields fields(object, "pointer.", problems);
  fields.Integer("reach", 1, kMaxPointerReach, true, pointer.reach);
  fields.ReportUnknown();
}

void ReadDrt(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  ReadLandmarks(fields, problems, config);
  fields.Integer("min_chunk_tokens", 1, kChunkTokens, false, config.min_chunk_tokens);
  fields.Bool("encoder_carry", config.encoder_carry);
  if (const json* lexicon = fields.Find("lexicon", false)) {
    ReadLexicon(*lexicon, problems, config.lexicon);
  }
  if (const json* pointer = fields.Find("pointer", false)) {
    ReadPointer(*pointer, problems, config.pointer);
  }
  fields.Bool("successors", config.successors);
  fields.Bool("memory_key_recurrence", config.memory_key_recurrence);
  fields.Bool("recurrence", config.recurrence);
  ReadPatterns(fields, problems, config);
}

// DRT as published: every way in which it differs from the flagship is a key whose other value is
// the flagship's.
void ReadDrtPaper(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  ReadLandmarks(fields, problems, config);
  config.memory_key_recurrence = false;
  fields.Integer("chunk_tokens", kChunkTokens, kMaxChunkTokens, true, config.chunk_tokens);
  ReadSwitch(fields, "landmark_at", "start", "end", config.landmark_at);
  ReadSwitch(fields, "landmark_row", "cls", "stream", config.landmark_row);
  ReadSwitch(fields, "landmark_reads", "own", "predecessor", config.landmark_reads);
  ReadSwitch(fields, "gca_softmax", "off_by_one", "ordinary", config.gca_softmax);
  fields.Bool("score_projections", config.score_projections, /*required=*/true);
  fields.Number("encoder_norm_eps", 1e-12, 1.0, config.encoder_norm_eps);
  if (!config.score_projections && config.d_r != config.d) {
    fields.Problem("d_r", absl::StrCat("is ", config.d_r, ", expected d ", config.d,
                                       " where score_projections is false"));
  }
  fields.Integer("context", 1, kUnboundedSpan, false, config.context);
  ReadMixers(fields, problems,
             {.kinds = {"attention"}, .positions = {"rope", "none", "alibi"}, .most = 1}, config);
}

// One stack of layers over the plain token sequence: no landmarks, hence nothing of what they need.
void ReadStack(Fields& fields, ModelConfig& config) {
  config.lmk_id = ModelConfig::kNoLandmark;
  config.encoder_layers = config.n_ret = 0;
  config.memory_key_recurrence = false;
  fields.Integer("layers", 1, kMaxLayers, true, config.n_low);
  fields.Integer("context", 1, kUnboundedSpan, false, config.context);
  if (fields.Choice("documents", false, {"prefix", "text"}) == 1) config.KeepText();
}

void ReadRatPlus(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  ReadStack(fields, config);
  config.ffn_kind = FfnKind::kGelu;
  config.gate_bias = false;
  fields.Integer("max_context", 1, kUnboundedSpan, false, config.max_context);
  if (config.max_context > 0 && (config.context == 0 || config.max_context < config.context)) {
    fields.Problem("max_context",
                   absl::StrCat("is ", config.max_context, ", expected at least context",
                                config.context > 0 ? absl::StrCat(" ", config.context)
                                                   : ", which is not given"));
  }
  fields.Bool("recurrence", config.recurrence);
  ReadPatterns(fields, problems, config);
}

// Families whose layers say by themselves how they mix positions; by name which kinds they may.
void ReadMixed(Fields& fields, std::vector<std::string>& problems,
               const std::vector<std::string>& kinds, ModelConfig& config) {
  ReadStack(fields, config);
  ReadMixers(fields, problems, {.kinds = kinds}, config);
}

void ReadRat(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  ReadMixed(fields, problems, {"rat"}, config);
}

void ReadRatSwa(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  ReadMixed(fields, problems, {"rat", "attention"}, config);
}

void ReadRattention(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  ReadMixed(fields, problems, {"rattention", "attention"}, config);
}

struct Family {
  const char* name;
  void (*read)(Fields& fields, std::vector<std::string>& problems, ModelConfig& config);
};
constexpr Family kFamilies[] = {
    {"drt", ReadDrt},        {"ratplus", ReadRatPlus},       {"rat", ReadRat},
    {"rat-swa", ReadRatSwa}, {"rattention", ReadRattention}, {"drt-paper", ReadDrtPaper}};

}  // namespace

absl::StatusOr<ModelConfig> ParseConfig(const std::string& text) {
  ASSIGN_OR_RETURN(const json root, ParseJson(text, EqualKeys::kRefused));
  if (!root.is_object()) return absl::InvalidArgumentError("expected a JSON object");
  std::vector<std::string> problems;
  ModelConfig config;
  Fields fields(root, "", problems);
  int version = kFormatVersion;
  fields.Integer("format_version", kFormatVersion, kFormatVersion, true, version);
  std::vector<std::string> names;
  for (const Family& known : kFamilies) names.emplace_back(known.name);
  const int choice = fields.Choice("architecture", true, names);
  fields.Integer("vocab_size", 1, kMaxSize, true, config.vocab_size);
  fields.Integer("unk_id", 0, kMaxSize, false, config.unk_id);
  fields.Integer("eos_id", 0, kMaxSize, false, config.eos_id);
  fields.Integer("d", 1, kMaxSize, true, config.d);
  fields.Integer("heads", 1, kMaxLayers, true, config.heads);
  fields.Integer("head_dim", 2, kMaxLayers, true, config.head_dim);
  fields.Integer("ffn", 1, kMaxSize, true, config.ffn);
  if (choice >= 0) {
    config.architecture = kFamilies[choice].name;
    kFamilies[choice].read(fields, problems, config);
  } else {
    config.lmk_id = ModelConfig::kNoLandmark;  // whether there is one is the family's to say
  }
  fields.Number("rope_base", 1.0, 1e12, config.rope_base);
  fields.Number("norm_eps", 1e-12, 1.0, config.norm_eps);
  if (config.encoder_norm_eps == 0) config.encoder_norm_eps = config.norm_eps;
  // Which other keys belong there depends on the family.
  if (choice >= 0) fields.ReportUnknown();
  CheckRelations(config, problems);
  if (!problems.empty()) return ProblemsError(problems);
  return config;
}

}  // namespace recollect::model
