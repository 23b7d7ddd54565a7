// Reads the keys of one JSON object of a config and collects their problems. Private to model/.
//
//   Fields fields(object, "local.", problems);
//   fields.Integer("window", 0, 100, /*required=*/true, window);
//   fields.ReportUnknown();
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/config/config.h"
#include "nlohmann/json.hpp"

namespace recollect::model {

// The largest sizes accepted: far above those of any model, and far below values whose product
// could overflow.
inline constexpr int64_t kMaxSize = int64_t{1} << 24;
inline constexpr int64_t kMaxLayers = 4096;
// The most tokens of LexiconConfig::reach: a session keeps that many ids, and each landmark that
// waits for its query has a copy of them.
inline constexpr int64_t kMaxLexiconReach = 256;

// Remembers which keys were read. Borrows the object and the list of problems; each problem names
// the key, the value and what was expected.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string prefix, std::vector<std::string>& problems)
      : object_(object), prefix_(std::move(prefix)), problems_(problems) {}

  const nlohmann::json* Find(const std::string& key, bool required) {
    known_.insert(key);
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (required) Problem(key, "missing");
    return nullptr;
  }

  template <typename T>
  void Integer(const std::string& key, int64_t low, int64_t high, bool required, T& out) {
    const nlohmann::json* value = Find(key, required);
    if (value == nullptr) return;
    if (!value->is_number_integer()) return Expected(key, "an integer");
    const bool too_large =
        value->is_number_unsigned() && value->get<uint64_t>() > std::numeric_limits<int64_t>::max();
    if (too_large || value->get<int64_t>() < low || value->get<int64_t>() > high) {
      return Expected(key, absl::StrCat(low, " to ", high));
    }
    out = static_cast<T>(value->get<int64_t>());
  }

  template <typename T>
  void Number(const std::string& key, double low, double high, T& out, bool required = false) {
    const nlohmann::json* value = Find(key, required);
    if (value == nullptr) return;
    if (!value->is_number()) return Expected(key, "a number");
    if (!(value->get<double>() >= low && value->get<double>() <= high)) {
      return Expected(key, absl::StrCat(low, " to ", high));
    }
    out = static_cast<T>(value->get<double>());
  }

  void Bool(const std::string& key, bool& out, bool required = false) {
    const nlohmann::json* value = Find(key, required);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Expected(key, "true or false");
    out = value->get<bool>();
  }

  // Reads ascending indices of layers, at least one, from `first` to before `end`; says that
  // `expected` was expected where they are not that.
  void Layers(const std::string& key, int64_t first, int64_t end, const std::string& expected,
              std::vector<int>& out) {
    const nlohmann::json* list = Find(key, true);
    if (list == nullptr) return;
    if (!list->is_array() || list->empty()) return Expected(key, expected);
    for (const nlohmann::json& entry : *list) {
      if (!entry.is_number_integer() || entry.get<int64_t>() < first ||
          entry.get<int64_t>() >= end) {
        return Expected(key, expected);
      }
      out.push_back(static_cast<int>(entry.get<int64_t>()));
      first = out.back() + 1;
    }
  }

  // Reads an object by read(its fields), after which other keys of it are problems.
  template <typename Read>
  void Object(const std::string& key, bool required, const Read& read,
              const char* expected = "an object") {
    const nlohmann::json* value = Find(key, required);
    if (value == nullptr) return;
    if (!value->is_object()) return Expected(key, expected);
    Fields inner(*value, absl::StrCat(prefix_, key, "."), problems_);
    read(inner);
    inner.ReportUnknown();
  }

  // Reads a list of objects, at least one, each by read(its fields); returns how many entries there
  // are.
  template <typename Read>
  size_t Objects(const std::string& key, const Read& read) {
    const nlohmann::json* list = Find(key, true);
    if (list == nullptr) return 0;
    if (!list->is_array() || list->empty()) {
      Expected(key, absl::StrCat("a list of ", key));
      return 0;
    }
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string entry = absl::StrCat(key, "[", i, "]");
      if (!(*list)[i].is_object()) {
        Problem(entry, absl::StrCat("is ", (*list)[i].dump(), ", expected an object"));
        continue;
      }
      Fields inner((*list)[i], absl::StrCat(prefix_, entry, "."), problems_);
      read(inner);
    }
    return list->size();
  }

  // Reads one of `choices`; returns its index, or -1 when the key is absent or its value wrong.
  int Choice(const std::string& key, bool required, const std::vector<std::string>& choices) {
    const nlohmann::json* value = Find(key, required);
    if (value == nullptr) return -1;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (*value == choices[i]) return static_cast<int>(i);
    }
    Expected(key, absl::StrCat("\"", absl::StrJoin(choices, "\" or \""), "\""));
    return -1;
  }

  // Makes one of a switch's two values, named `first` and `second`, of type T.
  template <typename T>
  void Switch(const std::string& key, bool required, const char* first, const char* second,
              T& out) {
    const int choice = Choice(key, required, {first, second});
    if (choice >= 0) out = static_cast<T>(choice);
  }

  // Says that the key, which is there, has another value than expected.
  void Expected(const std::string& key, const std::string& expected) {
    Problem(key, absl::StrCat("is ", object_.at(key).dump(), ", expected ", expected));
  }
  size_t problems() const { return problems_.size(); }
  void Problem(const std::string& key, const std::string& text) {
    problems_.push_back(absl::StrCat(prefix_, key, " ", text));
  }

  void ReportUnknown() {
    for (const auto& [key, value] : object_.items()) {
      if (!known_.contains(key)) Problem(key, "is not a known key");
    }
  }

 private:
  const nlohmann::json& object_;
  std::string prefix_;
  std::vector<std::string>& problems_;
  std::set<std::string> known_;
};

// Reads the keys "local", "adapted_dilations" and, in a family without landmarks,
// "adapted_windows", "adapted_initials" and "top_k". REQUIRES: layers and heads of `config` are
// read.
void ReadPatterns(Fields& fields, ModelConfig& config);

// The values that a family allows for its mixers, by their names in config.json.
struct MixerChoices {
  std::vector<std::string> kinds;
  std::vector<std::string> positions = {"rope", "none"};
  size_t most = kMaxLayers;  // entries of "mixers"
};

// Reads the keys "ffn_kind", "kv_heads", "rope_pairs", "head_norm_eps" and "mixers"; sets `local`
// from them. REQUIRES: layers and heads are read.
void ReadMixers(Fields& fields, const MixerChoices& choices, ModelConfig& config);

}  // namespace recollect::model
