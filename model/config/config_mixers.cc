// The part of config.json that says how layers mix positions, in the families that choose it by
// layer.
#include <algorithm>

#include "model/config/config_fields.h"

namespace recollect::model {
namespace {

using nlohmann::json;

// W earlier positions, or null for all; leaves `window` as it is where the key is not there.
void ReadWindow(Fields& fields, int64_t& window) {
  const json* value = fields.Find("window", false);
  if (value == nullptr || value->is_null()) return;
  fields.Integer("window", 0, kUnboundedSpan - 1, true, window);
}

void ReadPositions(Fields& fields, const std::vector<std::string>& names, Positions& positions) {
  const int index = fields.Choice("positions", true, names);
  if (index < 0) return;
  const std::string& name = names[static_cast<size_t>(index)];
  positions = name == "rope"   ? Positions::kRope
              : name == "none" ? Positions::kNone
                               : Positions::kAlibi;
}

void ReadRattention(Fields& fields, MixerConfig& mixer) {
  mixer.kind = MixerKind::kRattention;
  fields.Integer("window", -1, kMaxSize, true, mixer.window);
  fields.Bool("qk_norm", mixer.qk_norm);
  if (mixer.qk_norm && mixer.window < 0) {
    fields.Problem("qk_norm", "is true, expected false with window -1: there is no softmax");
  }
  fields.Switch("feature_map", true, "softmax", "relu", mixer.feature_map);
  fields.Integer("learned_tokens", 0, kMaxLayers, false, mixer.learned_tokens);
  fields.Bool("qk_scale", mixer.qk_scale);
}

MixerConfig ReadMixer(Fields& fields, const MixerChoices& choices, int heads) {
  MixerConfig mixer;
  const int index = fields.Choice("kind", true, choices.kinds);
  if (index < 0) return mixer;  // which other keys there are to be depends on it
  ReadPositions(fields, choices.positions, mixer.positions);
  const std::string& kind = choices.kinds[static_cast<size_t>(index)];
  if (kind == "rattention") {
    ReadRattention(fields, mixer);
  } else if (kind == "rat") {
    mixer.kind = MixerKind::kRat;
    fields.Integer("chunk", 1, kUnboundedSpan, true, mixer.chunk);
    fields.Integer("shared_heads", 1, std::max(heads, 1), true, mixer.shared_heads);
  } else {
    mixer.kind = MixerKind::kAttention;
    ReadWindow(fields, mixer.window);
    fields.Bool("qk_norm", mixer.qk_norm);
  }
  fields.ReportUnknown();
  return mixer;
}

// What a layer attends to, as a local pattern: the ends of chunks are the positions that a dilation
// keeps, and with dilation 1 they are all.
LocalPattern PatternOf(const MixerConfig& mixer) {
  LocalPattern pattern{.window = 0, .dilation = 1, .initial = 0, .span = kUnboundedSpan};
  if (mixer.kind == MixerKind::kRat) {
    pattern.dilation = mixer.chunk;
  } else if (mixer.window < kUnboundedSpan) {
    pattern.window = mixer.window;
    pattern.dilation = kNoDilation;
  }
  return pattern;
}

void ReadList(Fields& fields, const MixerChoices& choices, ModelConfig& config) {
  std::vector<MixerConfig> mixers;
  const size_t count = fields.Objects(
      "mixers", [&](Fields& inner) { mixers.push_back(ReadMixer(inner, choices, config.heads)); });
  if (count > choices.most) {
    fields.Problem("mixers", absl::StrCat("has ", count, " entries, expected ", choices.most));
  }
  if (count > 0) config.mixers = std::move(mixers);
}

}  // namespace

void ReadMixers(Fields& fields, const MixerChoices& choices, ModelConfig& config) {
  constexpr FfnKind kFfns[] = {FfnKind::kGelu, FfnKind::kGeGlu, FfnKind::kSwiGlu};
  const int ffn = fields.Choice("ffn_kind", true, {"gelu", "geglu", "swiglu"});
  config.ffn_kind = kFfns[std::max(ffn, 0)];
  config.kv_heads = config.heads;
  fields.Integer("kv_heads", 1, kMaxLayers, false, config.kv_heads);
  if (config.heads > 0 && config.heads % config.kv_heads != 0) {
    fields.Problem("kv_heads", absl::StrCat("is ", config.kv_heads,
                                            ", expected a divisor of heads ", config.heads));
  }
  fields.Switch("rope_pairs", true, "half", "interleaved", config.rope_pairs);
  fields.Number("head_norm_eps", 1e-12, 1.0, config.head_norm_eps);
  const size_t before = fields.problems();
  ReadList(fields, choices, config);
  if (fields.problems() > before) return;
  for (const MixerConfig& mixer : config.mixers) {
    const bool normed = mixer.qk_norm || mixer.kind == MixerKind::kRattention;
    if (!normed || config.head_norm_eps > 0) continue;
    fields.Problem("head_norm_eps", "missing, expected with mixers that have norms by head");
    break;
  }
  std::vector<HeadPatterns> patterns;
  patterns.reserve(static_cast<size_t>(config.layers()));
  for (int layer = 0; layer < config.layers(); ++layer) {
    patterns.push_back({PatternOf(config.mixer(layer))});
  }
  if (!patterns.empty()) config.local = LocalPatterns(std::move(patterns));
}

}  // namespace recollect::model
