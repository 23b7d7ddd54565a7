// ParseConfig: config.json to a struct, with every problem at once.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <string_view>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/types.h"
#include "model/config.h"
#include "model/json.h"
#include "model/pattern.h"

namespace recollect::model {
namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;
// Far above any model, far below where a product of two sizes could overflow.
constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;
// Reads the keys of one object, collects what is wrong with them, and remembers which it was asked
// for.
class Fields {
 public:
  Fields(const json& object, std::string prefix, std::vector<std::string>& problems)
      : object_(object), prefix_(std::move(prefix)), problems_(problems) {}

  const json* Find(const std::string& key, bool required) {
    known_.insert(key);
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (required) Problem(key, "missing");
    return nullptr;
  }

  template <typename T>
  void Integer(const std::string& key, int64_t low, int64_t high, bool required, T& out) {
    const json* value = Find(key, required);
    if (value == nullptr) return;
    if (!value->is_number_integer()) {
      Problem(key, absl::StrCat("is ", value->dump(), ", expected an integer"));
      return;
    }
    const bool too_large =
        value->is_number_unsigned() && value->get<uint64_t>() > std::numeric_limits<int64_t>::max();
    if (too_large || value->get<int64_t>() < low || value->get<int64_t>() > high) {
      Problem(key, absl::StrCat("is ", value->dump(), ", expected ", low, " to ", high));
      return;
    }
    out = static_cast<T>(value->get<int64_t>());
  }

  template <typename T>
  void Number(const std::string& key, double low, double high, T& out) {
    const json* value = Find(key, false);
    if (value == nullptr) return;
    if (!value->is_number() || !(value->get<double>() >= low && value->get<double>() <= high)) {
      Problem(key,
              absl::StrCat("is ", value->dump(), ", expected a number from ", low, " to ", high));
      return;
    }
    out = static_cast<T>(value->get<double>());
  }

  void Bool(const std::string& key, bool& out) {
    const json* value = Find(key, false);
    if (value == nullptr) return;
    if (!value->is_boolean()) {
      Problem(key, absl::StrCat("is ", value->dump(), ", expected true or false"));
      return;
    }
    out = value->get<bool>();
  }

  // One of `choices`; index into it, or -1 when absent or wrong.
  int Choice(const std::string& key, bool required, const std::vector<std::string>& choices) {
    const json* value = Find(key, required);
    if (value == nullptr) return -1;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (*value == choices[i]) return static_cast<int>(i);
    }
    Problem(key, absl::StrCat("is ", value->dump(), ", expected \"",
                              absl::StrJoin(choices, "\" or \""), "\""));
    return -1;
  }

  void Problem(const std::string& key, const std::string& text) {
    problems_.push_back(absl::StrCat(prefix_, key, " ", text));
  }

  void ReportUnknown() {
    for (const auto& [key, value] : object_.items()) {
      if (!known_.contains(key)) Problem(key, "is not a known key");
    }
  }

 private:
  const json& object_;
  std::string prefix_;
  std::vector<std::string>& problems_;
  std::set<std::string> known_;
};

void ReadGroups(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  const json* groups = fields.Find("groups", true);
  if (groups == nullptr) return;
  if (!groups->is_array() || groups->empty()) {
    fields.Problem("groups", absl::StrCat("is ", groups->dump(), ", expected a list of groups"));
    return;
  }
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
    config.groups.push_back(std::move(group));
  }
}

void ReadLocal(Fields& fields, std::vector<std::string>& problems, ModelConfig& config) {
  if (const json* local = fields.Find("local", true)) {
    if (!local->is_object()) {
      fields.Problem("local", absl::StrCat("is ", local->dump(), ", expected an object"));
    } else {
      const size_t before = problems.size();
      constexpr int64_t kAny = int64_t{1} << 62;
      Fields inner(*local, "local.", problems);
      inner.Integer("window", -kAny, kAny, true, config.local.window);
      inner.Integer("dilation", -kAny, kAny, true, config.local.dilation);
      inner.Integer("initial", -kAny, kAny, true, config.local.initial);
      inner.Integer("span", -kAny, kAny, true, config.local.span);
      inner.ReportUnknown();
      // With a key missing, its default would only add a second, confusing complaint.
      if (problems.size() == before) {
        for (const std::string& text : PatternProblems(config.local)) {
          problems.push_back("local." + text);
        }
      }
    }
  }
  if (const json* list = fields.Find("adapted_dilations", false)) {
    bool good = list->is_array();
    for (size_t i = 0; good && i < list->size(); ++i) {
      const json& entry = (*list)[i];
      good = entry.is_number_unsigned() && entry.get<uint64_t>() >= 1 &&
             entry.get<uint64_t>() <= uint64_t{kBlockRows} &&
             kBlockRows % entry.get<int64_t>() == 0;
      if (good) config.adapted_dilations.push_back(entry.get<int64_t>());
    }
    if (!good) {
      fields.Problem(
          "adapted_dilations",
          absl::StrCat("is ", list->dump(), ", expected a list of divisors of ", kBlockRows));
    }
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
  const std::pair<const char*, int32_t> ids[] = {
      {"unk_id", config.unk_id}, {"lmk_id", config.lmk_id}, {"eos_id", config.eos_id}};
  for (const auto& [name, id] : ids) {
    if (config.vocab_size > 0 && id >= config.vocab_size) {
      problems.push_back(
          absl::StrCat(name, " is ", id, ", expected below vocab_size ", config.vocab_size));
    }
  }
  if (config.unk_id == config.lmk_id || config.lmk_id == config.eos_id ||
      config.unk_id == config.eos_id) {
    problems.push_back(absl::StrCat("unk_id, lmk_id, eos_id are ", config.unk_id, ", ",
                                    config.lmk_id, ", ", config.eos_id,
                                    ", expected three different ids"));
  }
}

}  // namespace

absl::StatusOr<ModelConfig> ParseConfig(const std::string& text) {
  ASSIGN_OR_RETURN(const json root, ParseJson(text));
  if (!root.is_object()) return absl::InvalidArgumentError("expected a JSON object");
  std::vector<std::string> problems;
  ModelConfig config;
  Fields fields(root, "", problems);
  int version = kFormatVersion;
  fields.Integer("format_version", kFormatVersion, kFormatVersion, true, version);
  if (fields.Choice("architecture", true, {"drt"}) == 0) config.architecture = "drt";
  fields.Integer("vocab_size", 1, kMaxSize, true, config.vocab_size);
  fields.Integer("unk_id", 0, kMaxSize, false, config.unk_id);
  fields.Integer("lmk_id", 0, kMaxSize, false, config.lmk_id);
  fields.Integer("eos_id", 0, kMaxSize, false, config.eos_id);
  fields.Integer("d", 1, kMaxSize, true, config.d);
  fields.Integer("heads", 1, kMaxLayers, true, config.heads);
  fields.Integer("head_dim", 2, kMaxLayers, true, config.head_dim);
  fields.Integer("ffn", 1, kMaxSize, true, config.ffn);
  fields.Integer("n_low", 1, kMaxLayers, true, config.n_low);
  ReadGroups(fields, problems, config);
  fields.Integer("encoder_layers", 1, kMaxLayers, false, config.encoder_layers);
  fields.Bool("encoder_carry", config.encoder_carry);
  fields.Integer("n_ret", 1, kMaxLayers, false, config.n_ret);
  fields.Integer("d_r", 1, kMaxSize, true, config.d_r);
  fields.Integer("memory_kv_heads", 1, kMaxLayers, true, config.memory_kv_heads);
  fields.Bool("memory_key_recurrence", config.memory_key_recurrence);
  if (fields.Choice("gca_residual", false, {"add", "bypass"}) == 1) {
    config.gca_residual = GcaResidual::kBypass;
  }
  fields.Bool("recurrence", config.recurrence);
  fields.Number("rope_base", 1.0, 1e12, config.rope_base);
  fields.Number("norm_eps", 1e-12, 1.0, config.norm_eps);
  ReadLocal(fields, problems, config);
  fields.ReportUnknown();
  CheckRelations(config, problems);
  if (!problems.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
  return config;
}

}  // namespace recollect::model
