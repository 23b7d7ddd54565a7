// The part of config.json that says what a token attends to: "local" and what requests may ask for
// instead of it.
#include <algorithm>
#include <optional>

#include "base/types.h"
#include "model/config/config_fields.h"

namespace recollect::model {
namespace {

using nlohmann::json;

constexpr int64_t kAny = int64_t{1} << 62;
// By layer and head: a hundred layers of a hundred heads are 10 000.
constexpr size_t kMaxPatterns = size_t{1} << 16;

// Numbers of one key of "local" by layer and head: as in LocalPatterns, one entry stands for all.
using Table = std::vector<std::vector<int64_t>>;

bool IsInteger(const json& value) {
  return value.is_number_integer() &&
         !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kAny}) &&
         value.get<int64_t>() >= -kAny;
}

// `value` as one number, or with one entry for each of `count` things named `what`; each entry by
// `read`. `path` is the key with what was indexed so far.
template <typename Entry, typename Read>
std::vector<Entry> OneOrEach(Fields& fields, const std::string& path, const json& value,
                             int64_t count, const char* what, const Read& read) {
  std::vector<Entry> entries;
  if (!value.is_array()) {
    read(path, value, entries);
  } else if (count <= 0) {
    return entries;  // how many there are is wrong already
  } else if (static_cast<int64_t>(value.size()) != count) {
    fields.Problem(path, absl::StrCat("has ", value.size(), " entries, expected one for each of ",
                                      count, " ", what));
  } else {
    for (size_t i = 0; i < value.size(); ++i) {
      read(absl::StrCat(path, "[", i, "]"), value[i], entries);
    }
  }
  return entries;
}

// Empty when something is wrong with it, which is then reported. `absent`: what a key that is not
// there, and null in place of a number, stand for; without it they are wrong.
Table ReadTable(Fields& fields, const std::string& key, const ModelConfig& config,
                std::optional<int64_t> absent = std::nullopt) {
  const json* value = fields.Find(key, !absent);
  if (value == nullptr) return absent ? Table{{*absent}} : Table();
  const auto read_number = [&](const std::string& path, const json& entry,
                               std::vector<int64_t>& out) {
    if (IsInteger(entry)) return out.push_back(entry.get<int64_t>());
    if (absent && entry.is_null()) return out.push_back(*absent);
    fields.Problem(
        path, absl::StrCat("is ", entry.dump(), ", expected an integer", absent ? " or null" : ""));
  };
  bool good = true;
  const auto read_heads = [&](const std::string& path, const json& entry, Table& out) {
    out.push_back(OneOrEach<int64_t>(fields, path, entry, config.heads, "heads", read_number));
    const size_t expected = entry.is_array() ? static_cast<size_t>(config.heads) : 1;
    good = good && !out.back().empty() && out.back().size() == expected;
  };
  if (config.landmarks()) {
    Table table(1);
    read_number(key, *value, table[0]);
    return table[0].empty() ? Table() : table;
  }
  Table table =
      OneOrEach<std::vector<int64_t>>(fields, key, *value, config.layers(), "layers", read_heads);
  const size_t expected = value->is_array() ? static_cast<size_t>(config.layers()) : 1;
  return good && table.size() == expected ? table : Table();
}

int64_t At(const Table& table, size_t layer, size_t head) {
  const std::vector<int64_t>& heads = table[table.size() == 1 ? 0 : layer];
  return heads[heads.size() == 1 ? 0 : head];
}

// Nothing, and a problem, when they are more than any model's: few entries of one number by layer
// and of another by head would stand for millions.
std::optional<LocalPatterns> Join(Fields& fields, const Table& window, const Table& dilation,
                                  const Table& initial, const Table& span) {
  const auto tables = {&window, &dilation, &initial, &span};
  size_t layers = 1, heads = 1;
  for (const Table* table : tables) {
    layers = std::max(layers, table->size());
    for (const std::vector<int64_t>& entry : *table) heads = std::max(heads, entry.size());
  }
  if (layers * heads > kMaxPatterns) {
    fields.Problem("local", absl::StrCat("is for ", layers, " layers of ", heads,
                                         " heads, expected at most ", kMaxPatterns, " of them"));
    return std::nullopt;
  }
  std::vector<HeadPatterns> patterns(layers, HeadPatterns(heads));
  for (size_t i = 0; i < layers; ++i) {
    for (size_t h = 0; h < heads; ++h) {
      patterns[i][h] = {.window = At(window, i, h),
                        .dilation = At(dilation, i, h),
                        .initial = At(initial, i, h),
                        .span = At(span, i, h)};
    }
  }
  return LocalPatterns(std::move(patterns));
}

void ReadLocal(Fields& fields, Fields& local, ModelConfig& config) {
  const Table window = ReadTable(local, "window", config);
  const Table dilation = ReadTable(local, "dilation", config);
  const Table initial = ReadTable(local, "initial", config);
  // RAT+ as published drops nothing; sessions with blocks have to.
  const Table span = config.landmarks() ? ReadTable(local, "span", config)
                                        : ReadTable(local, "span", config, kUnboundedSpan);
  // With a key missing, its default would only add a second, confusing complaint.
  if (window.empty() || dilation.empty() || initial.empty() || span.empty()) return;
  std::optional<LocalPatterns> joined = Join(fields, window, dilation, initial, span);
  if (!joined) return;
  config.local = *std::move(joined);
  const std::vector<HeadPatterns>& layers = config.local.layers();
  for (size_t i = 0; i < layers.size(); ++i) {
    for (size_t h = 0; h < layers[i].size(); ++h) {
      std::string where;
      if (layers.size() > 1) absl::StrAppend(&where, " in layer ", i);
      if (layers[i].size() > 1) absl::StrAppend(&where, " in head ", h);
      for (const std::string& text : PatternProblems(layers[i][h], config.landmarks())) {
        const size_t name = text.find(' ');
        local.Problem(text.substr(0, name), text.substr(name + 1) + where);
      }
    }
  }
}

void ReadAdaptedDilations(Fields& fields, const ModelConfig& config, std::vector<int64_t>& out) {
  const json* list = fields.Find("adapted_dilations", false);
  if (list == nullptr) return;
  bool good = list->is_array();
  for (size_t i = 0; good && i < list->size(); ++i) {
    const json& entry = (*list)[i];
    good = IsInteger(entry) &&
           PatternProblems({.dilation = entry.get<int64_t>()}, config.landmarks()).empty();
    if (good) out.push_back(entry.get<int64_t>());
  }
  if (good) return;
  const std::string expected = config.landmarks()
                                   ? absl::StrCat("divisors of ", kBlockRows)
                                   : absl::StrCat("dilations, ", kNoDilation, " or from 1 up");
  fields.Expected("adapted_dilations", absl::StrCat("a list of ", expected));
}

std::optional<AdaptedRange> ReadRange(Fields& fields, const std::string& key) {
  std::optional<AdaptedRange> range;
  const auto read = [&](Fields& inner) {
    range.emplace();
    inner.Integer("min", 0, kUnboundedSpan, true, range->low);
    inner.Integer("max", 0, kUnboundedSpan, true, range->high);
  };
  fields.Object(key, false, read, "{\"min\": LOW, \"max\": HIGH}");
  if (range && range->high < range->low) {
    fields.Problem(key,
                   absl::StrCat("has max ", range->high, ", expected at least min ", range->low));
  }
  return range;
}

void ReadTopK(Fields& top_k, TopKConfig& config) {
  top_k.Integer("block", 1, kMaxSize, true, config.block);
  top_k.Integer("max", 1, kMaxSize, true, config.max);
  top_k.Switch("score", true, BlockScoreName(BlockScore::kQuest), BlockScoreName(BlockScore::kMoba),
               config.score);
}

}  // namespace

void ReadPatterns(Fields& fields, ModelConfig& config) {
  fields.Object("local", true, [&](Fields& local) { ReadLocal(fields, local, config); });
  ReadAdaptedDilations(fields, config, config.adapted_dilations);
  if (config.landmarks()) return;
  config.adapted_windows = ReadRange(fields, "adapted_windows");
  config.adapted_initials = ReadRange(fields, "adapted_initials");
  fields.Object("top_k", false, [&](Fields& top_k) { ReadTopK(top_k, config.top_k); });
}

}  // namespace recollect::model
