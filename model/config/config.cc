#include "model/config/config.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_join.h"
#include "base/status.h"

namespace recollect::model {

namespace {

// Collects complaints; layers and heads that share one make it once.
class Problems {
 public:
  void Add(std::string text) {
    if (seen_.insert(text).second) texts_.push_back(std::move(text));
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::set<std::string> seen_;
  std::vector<std::string> texts_;
};

void CheckRange(const char* name, int64_t asked, int64_t given,
                const std::optional<AdaptedRange>& range, Problems& problems) {
  if (asked == given) return;
  std::string adapted = absl::StrCat(given);
  if (range) {
    if (asked >= range->low && asked <= range->high) return;
    absl::StrAppend(&adapted, " and ", range->low, " to ", range->high);
  }
  problems.Add(absl::StrCat(name, " is ", asked, ", the checkpoint is adapted to ", adapted));
}

void CheckDilation(const ModelConfig& config, int64_t asked, int64_t given, Problems& problems) {
  std::vector<int64_t> dilations = config.adapted_dilations;
  dilations.push_back(given);
  std::sort(dilations.begin(), dilations.end());
  dilations.erase(std::unique(dilations.begin(), dilations.end()), dilations.end());
  if (std::binary_search(dilations.begin(), dilations.end(), asked)) return;
  problems.Add(absl::StrCat("dilation is ", asked, ", the checkpoint is adapted to ",
                            absl::StrJoin(dilations, ", ")));
}

// The pattern of head `head` where a layer has one entry for all heads or one for each.
const LocalPattern& OfHead(const HeadPatterns& heads, size_t head) {
  return heads.size() == 1 ? heads[0] : heads[head];
}

}  // namespace

void ModelConfig::KeepText() {
  constexpr int kLeastTokens = 32;  // of a block that ends with a sentence
  text_documents = true;
  chunk_tokens = kChunkTokens;
  min_chunk_tokens = kLeastTokens;
}

double ModelConfig::RopeBase(int64_t stretched) const {
  // A head of two has one angle, which the base does not enter.
  if (stretched <= context || context == 0 || head_dim <= 2) return rope_base;
  const double factor = static_cast<double>(stretched) / static_cast<double>(context);
  return rope_base * std::pow(factor, static_cast<double>(head_dim) / (head_dim - 2));
}

bool ModelConfig::rewinds() const {
  return !landmarks() && std::ranges::all_of(mixers, [](const MixerConfig& mixer) {
    return mixer.kind == MixerKind::kAttention;
  });
}

int64_t ModelConfig::PositionLimit(const LocalPatterns& patterns) const {
  if (!any_patterns) return 0;
  if (patterns.context() > 0) return patterns.context();
  for (const HeadPatterns& layer : patterns.layers()) {
    for (const LocalPattern& pattern : layer) {
      if (pattern.dilation == 1) return context;
    }
  }
  return 0;
}

bool ModelConfig::Ends(int32_t id) const {
  return id == eos_id ||
         std::find(more_eos_ids.begin(), more_eos_ids.end(), id) != more_eos_ids.end();
}

LayerParts ModelConfig::parts(int layer) const {
  return {.mixer = mixer(layer),
          .gate_bias = gate_bias && IsGated(mixer(layer).kind),
          .ffn = ffn_kind,
          .gca = layer_has_gca(layer)};
}

int64_t ModelConfig::position_floats() const {
  int64_t total = 0;
  for (int layer = 0; layer < layers(); ++layer) {
    const MixerKind kind = mixer(layer).kind;
    // Placed and raw keys, values; else keys and values twice: in the window and, with dilation 1,
    // among the dilated positions, or with the bounds of a block of one position.
    total += kind == MixerKind::kRattention ? 3 * kv_width()
                                            : 4 * (IsGated(kind) ? inner() : kv_width());
  }
  return total;
}

int ModelConfig::layers() const {
  int count = n_low;
  for (const GroupConfig& group : groups) count += group.layers;
  return count;
}

int ModelConfig::first_layer_of_group(int group) const {
  int layer = n_low;
  for (int g = 0; g < group; ++g) layer += groups[g].layers;
  return layer;
}

bool ModelConfig::layer_has_gca(int layer) const {
  int first = n_low;
  for (const GroupConfig& group : groups) {
    if (layer >= first && layer < first + group.layers) {
      return std::find(group.gca_layers.begin(), group.gca_layers.end(), layer - first) !=
             group.gca_layers.end();
    }
    first += group.layers;
  }
  return false;
}

absl::Status ValidatePatterns(const ModelConfig& config, const LocalPatterns& patterns) {
  Problems problems;
  const size_t layers = std::max(patterns.layers().size(), config.local.layers().size());
  for (size_t layer = 0; layer < layers; ++layer) {
    const HeadPatterns& asked_heads = patterns.layer(static_cast<int>(layer));
    const HeadPatterns& given_heads = config.local.layer(static_cast<int>(layer));
    if (config.any_patterns && asked_heads.size() > 1) {
      problems.Add(absl::StrCat("patterns by head: ", config.heads, " heads share ",
                                config.kv_heads, " key-value heads, expected one pattern a layer"));
      continue;
    }
    for (size_t head = 0; head < std::max(asked_heads.size(), given_heads.size()); ++head) {
      const LocalPattern& asked = OfHead(asked_heads, head);
      const LocalPattern& given = OfHead(given_heads, head);
      if (asked == given) continue;
      // Without dilation blocks do not bind the pattern, and the checkpoint's own number is all
      // there is.
      const bool blocks = config.landmarks() && IsGated(config.mixer(static_cast<int>(layer)).kind);
      for (std::string& text : PatternProblems(asked, blocks)) {
        problems.Add(std::move(text));
      }
      CheckRange("span", asked.span, given.span, std::nullopt, problems);
      if (config.any_patterns) continue;
      CheckRange("window", asked.window, given.window, config.adapted_windows, problems);
      CheckRange("initial", asked.initial, given.initial, config.adapted_initials, problems);
      CheckDilation(config, asked.dilation, given.dilation, problems);
    }
  }
  const BlockChoice& blocks = patterns.blocks();
  if (blocks.count < 0 || blocks.count > config.top_k.max) {
    problems.Add(absl::StrCat("top_k_blocks is ", blocks.count, ", the checkpoint allows ",
                              config.top_k.max > 0 ? "0 to " : "", config.top_k.max));
  }
  const int64_t context = patterns.context();
  if (config.any_patterns && context > config.context) {
    problems.Add(
        absl::StrCat("context is ", context, ", the checkpoint was trained with ", config.context));
  } else if (!config.any_patterns && context != 0 &&
             (context < config.context || context > config.max_context)) {
    problems.Add(
        config.max_context == 0
            ? absl::StrCat("context is ", context, ", the checkpoint has no context to stretch")
            : absl::StrCat("context is ", context, ", the checkpoint stretches to ", config.context,
                           " to ", config.max_context));
  }
  if (problems.texts().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("local pattern: ", absl::StrJoin(problems.texts(), "; ")));
}

}  // namespace recollect::model
