// ParseConfig: config.json to a struct, with every problem at once.

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

void ReadGroups(Fields& fields, ModelConfig& config) {
  int64_t layers = 0;  // of all groups
  fields.Objects("groups", [&](Fields& inner) {
    GroupConfig group;
    inner.Integer("layers", 1, kMaxLayers, true, group.layers);
    inner.Layers("gca_layers", 0, group.layers,
                 absl::StrCat("ascending indices from 0 to ", group.layers - 1), group.gca_layers);
    inner.ReportUnknown();
    layers += group.layers;
    if (layers <= kMaxLayers) config.groups.push_back(std::move(group));
  });
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

// Lower layers, groups of upper layers with GCA, the chunk encoder and memory.
void ReadLandmarks(Fields& fields, ModelConfig& config) {
  fields.Integer("lmk_id", 0, kMaxSize, false, config.lmk_id);
  fields.Integer("n_low", 1, kMaxLayers, true, config.n_low);
  ReadGroups(fields, config);
  fields.Integer("encoder_layers", 1, kMaxLayers, false, config.encoder_layers);
  fields.Integer("n_ret", 1, kMaxLayers, false, config.n_ret);
  fields.Integer("d_r", 1, kMaxSize, true, config.d_r);
  fields.Integer("memory_kv_heads", 1, kMaxLayers, true, config.memory_kv_heads);
  fields.Switch("gca_residual", false, "add", "bypass", config.gca_residual);
}

void ReadDrt(Fields& fields, ModelConfig& config) {
  ReadLandmarks(fields, config);
  fields.Integer("min_chunk_tokens", 1, kChunkTokens, false, config.min_chunk_tokens);
  fields.Bool("encoder_carry", config.encoder_carry);
  fields.Object("lexicon", false, [&](Fields& lexicon) {
    lexicon.Integer("d", 1, kMaxSize, true, config.lexicon.d);
    lexicon.Integer("reach", 1, kMaxLexiconReach, true, config.lexicon.reach);
  });
  fields.Object("pointer", false, [&](Fields& pointer) {
    pointer.Integer("reach", 1, kMaxPointerReach, true, config.pointer.reach);
  });
  fields.Bool("successors", config.successors);
  fields.Bool("memory_key_recurrence", config.memory_key_recurrence);
  fields.Bool("recurrence", config.recurrence);
  ReadPatterns(fields, config);
}

// DRT as published: every way in which it differs from the flagship is a key whose other value is
// the flagship's.
void ReadDrtPaper(Fields& fields, ModelConfig& config) {
  ReadLandmarks(fields, config);
  config.memory_key_recurrence = false;
  fields.Integer("chunk_tokens", kChunkTokens, kMaxChunkTokens, true, config.chunk_tokens);
  fields.Switch("landmark_at", true, "start", "end", config.landmark_at);
  fields.Switch("landmark_row", true, "cls", "stream", config.landmark_row);
  fields.Switch("landmark_reads", true, "own", "predecessor", config.landmark_reads);
  fields.Switch("gca_softmax", true, "off_by_one", "ordinary", config.gca_softmax);
  fields.Bool("score_projections", config.score_projections, /*required=*/true);
  fields.Number("encoder_norm_eps", 1e-12, 1.0, config.encoder_norm_eps);
  if (!config.score_projections && config.d_r != config.d) {
    fields.Problem("d_r", absl::StrCat("is ", config.d_r, ", expected d ", config.d,
                                       " where score_projections is false"));
  }
  fields.Integer("context", 1, kUnboundedSpan, false, config.context);
  ReadMixers(fields, {.kinds = {"attention"}, .positions = {"rope", "none", "alibi"}, .most = 1},
             config);
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

void ReadRatPlus(Fields& fields, ModelConfig& config) {
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
  ReadPatterns(fields, config);
}

// Families whose layers say by themselves how they mix positions, each by one of these kinds.
void ReadMixed(Fields& fields, const std::vector<std::string>& kinds, ModelConfig& config) {
  ReadStack(fields, config);
  ReadMixers(fields, {.kinds = kinds}, config);
}

void ReadRat(Fields& fields, ModelConfig& config) { ReadMixed(fields, {"rat"}, config); }

void ReadRatSwa(Fields& fields, ModelConfig& config) {
  ReadMixed(fields, {"rat", "attention"}, config);
}

void ReadRattention(Fields& fields, ModelConfig& config) {
  ReadMixed(fields, {"rattention", "attention"}, config);
}

struct Family {
  const char* name;
  void (*read)(Fields& fields, ModelConfig& config);
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
    kFamilies[choice].read(fields, config);
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
