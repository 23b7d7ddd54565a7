#include "cli/niah/report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace recollect::cli::niah {
namespace {

constexpr char kAll[] = "(all)";  // sorts before names

struct Finds {
  double hits = 0, firsts = 0, weight = 0;  // sums

  void Add(const Finding& f) {
    hits += f.hit ? 1 : 0;
    firsts += f.first ? 1 : 0;
    weight += f.weight;
  }
};

struct Cell {
  int64_t count = 0, judged = 0, right = 0, mounted = 0, documents = 0;
  int64_t ingested_tokens = 0, generated_tokens = 0;
  double ingest_s = 0, answer_ms = 0, generation_ms = 0;
  std::vector<Finds> groups;
  std::optional<Finds> bm25;
  std::vector<std::pair<std::string, double>> numbers;  // sums

  void Add(const Sample& s) {
    ++count;
    judged += s.right.has_value() ? 1 : 0;
    right += s.right.value_or(false) ? 1 : 0;
    mounted += s.tokens_mounted;
    documents = s.documents;
    ingested_tokens += s.ingested_tokens;
    ingest_s += s.ingest_s;
    answer_ms += s.answer_ms;
    generated_tokens += s.generated_tokens;
    generation_ms += s.generation_ms;
    groups.resize(std::max(groups.size(), s.found.size()));
    for (size_t g = 0; g < s.found.size(); ++g) groups[g].Add(s.found[g]);
    if (s.bm25.has_value()) {
      if (!bm25.has_value()) bm25.emplace();
      bm25->Add(*s.bm25);
    }
    numbers.resize(std::max(numbers.size(), s.numbers.size()));
    for (size_t n = 0; n < s.numbers.size(); ++n) {
      numbers[n] = {s.numbers[n].first, numbers[n].second + s.numbers[n].second};
    }
  }
  double Mean(double sum) const { return sum / static_cast<double>(count); }
  double Rate() const {
    return judged == 0 ? 0 : static_cast<double>(right) / static_cast<double>(judged);
  }
};

using Key = std::tuple<std::string, int64_t, std::string>;  // task, tokens, variant
using Cells = std::map<Key, Cell>;
using Filter = std::function<bool(const Sample&)>;

std::set<std::string> TasksOfMany(const std::vector<Sample>& samples) {
  std::map<std::string, std::set<std::string>> variants;
  for (const Sample& s : samples) variants[s.task].insert(s.variant);
  std::set<std::string> tasks;
  for (const auto& [task, names] : variants) {
    if (std::ssize(names) > kFewVariants) tasks.insert(task);
  }
  return tasks;
}

Cells Group(const std::vector<Sample>& samples) {
  const std::set<std::string> many = TasksOfMany(samples);
  Cells cells;
  for (const Sample& s : samples) {
    cells[{s.task, s.tokens_asked, s.variant}].Add(s);
    if (many.contains(s.task)) cells[{s.task, s.tokens_asked, kAll}].Add(s);
  }
  return cells;
}

// Samples of answers only: a part that tells kinds of them apart.
Cells Part(const std::vector<Sample>& samples, const Filter& include) {
  const std::set<std::string> many = TasksOfMany(samples);
  Cells cells;
  for (const Sample& s : samples) {
    if (!s.right.has_value() || !include(s)) continue;
    cells[{s.task, s.tokens_asked, many.contains(s.task) ? kAll : s.variant}].Add(s);
  }
  return cells;
}

std::string Rate(const Cell& cell) {
  if (cell.judged == 0) return "-";
  const auto [low, high] = Interval(cell.right, cell.judged);
  return absl::StrFormat("%5.1f %%  %4d/%-4d [%5.1f, %5.1f]", 100 * cell.Rate(), cell.right,
                         cell.judged, 100 * low, 100 * high);
}

// A share or a percentage of each group's samples, with slashes between.
std::string PerGroup(const Cell& cell, double Finds::*sum, double scale) {
  std::string text;
  for (const Finds& group : cell.groups) {
    absl::StrAppend(&text, text.empty() ? "" : "/",
                    absl::StrFormat("%.*f", scale == 1 ? 2 : 0, scale * cell.Mean(group.*sum)));
  }
  return text.empty() ? "-" : text;
}

std::string Bm25Text(const Cell& cell) {
  if (!cell.bm25.has_value()) return "-";
  return absl::StrFormat("%.0f %.0f", 100 * cell.Mean(cell.bm25->hits),
                         100 * cell.Mean(cell.bm25->firsts));
}

std::string NumbersText(const Cell& cell) {
  std::string text;
  for (const auto& [name, sum] : cell.numbers) {
    absl::StrAppendFormat(&text, "%s%s %.3f", text.empty() ? "" : ", ", name, cell.Mean(sum));
  }
  return text;
}

void AppendCells(const std::string& title, const Cells& cells, std::string* out) {
  if (cells.empty()) return;
  absl::StrAppendFormat(out, "\n%s\n", title);
  for (const auto& [key, cell] : cells) {
    const auto& [task, tokens, variant] = key;
    absl::StrAppendFormat(out, "  %-12s %9d  %-14s %s\n", task, tokens, variant, Rate(cell));
  }
}

const char* Name(Sample::Span span) {
  switch (span) {
    case Sample::Span::kOneChunk:
      return "one chunk";
    case Sample::Span::kTwoChunks:
      return "two chunks";
    case Sample::Span::kUnknown:
      return "unknown";
  }
  return "";
}

Json NumbersJson(const Cell& cell) {
  Json numbers = Json::object();
  for (const auto& [name, sum] : cell.numbers) numbers[name] = cell.Mean(sum);
  return numbers;
}

Json CellJson(const Key& key, const Cell& cell) {
  const auto [low, high] = Interval(cell.right, cell.judged);
  Json hits = Json::array(), firsts = Json::array(), weights = Json::array();
  for (const Finds& group : cell.groups) {
    hits.push_back(cell.Mean(group.hits));
    firsts.push_back(cell.Mean(group.firsts));
    weights.push_back(cell.Mean(group.weight));
  }
  Json json = {{"task", std::get<0>(key)},
               {"tokens", std::get<1>(key)},
               {"variant", std::get<2>(key)},
               {"samples", cell.count},
               {"judged", cell.judged},
               {"right", cell.right},
               {"rate", cell.Rate()},
               {"low95", low},
               {"high95", high},
               {"mounted_tokens", cell.Mean(static_cast<double>(cell.mounted))},
               {"documents", cell.documents},
               {"gold_hit_rate", hits},
               {"gold_first_rate", firsts},
               {"gold_weight", weights},
               {"numbers", NumbersJson(cell)},
               {"answer_ms", cell.Mean(cell.answer_ms)},
               {"ingest_tokens_per_s",
                cell.ingest_s > 0 ? static_cast<double>(cell.ingested_tokens) / cell.ingest_s : 0},
               {"generate_tokens_per_s",
                cell.generation_ms > 0
                    ? 1000.0 * static_cast<double>(cell.generated_tokens) / cell.generation_ms
                    : 0}};
  if (cell.bm25.has_value()) {
    json["bm25_hit_rate"] = cell.Mean(cell.bm25->hits);
    json["bm25_first_rate"] = cell.Mean(cell.bm25->firsts);
  }
  return json;
}

Json CellsJson(const Cells& cells) {
  Json array = Json::array();
  for (const auto& [key, cell] : cells) array.push_back(CellJson(key, cell));
  return array;
}

Json SampleJson(const Sample& s) {
  Json hits = Json::array(), firsts = Json::array(), weights = Json::array();
  for (const Finding& found : s.found) {
    hits.push_back(found.hit);
    firsts.push_back(found.first);
    weights.push_back(found.weight);
  }
  Json json = {{"task", s.task},
               {"variant", s.variant},
               {"tokens", s.tokens_asked},
               {"mounted_tokens", s.tokens_mounted},
               {"depth", s.depth},
               {"question", s.question},
               {"value", s.value},
               {"answer", s.answer},
               {"needle_in", Name(s.span)},
               {"crosses_block", s.crosses_block},
               {"gold_hit", hits},
               {"gold_first", firsts},
               {"gold_weight", weights},
               {"answer_ms", s.answer_ms}};
  if (s.right.has_value()) json["right"] = *s.right;
  if (s.bm25.has_value()) {
    json["bm25_hit"] = s.bm25->hit;
    json["bm25_first"] = s.bm25->first;
  }
  for (const auto& [name, value] : s.numbers) json["numbers"][name] = value;
  return json;
}

bool InOneChunk(const Sample& s) { return s.span == Sample::Span::kOneChunk && !s.crosses_block; }
bool Straddles(const Sample& s) { return s.span == Sample::Span::kTwoChunks; }
bool Crosses(const Sample& s) { return s.crosses_block; }

}  // namespace

int DepthBucket(const Sample& sample, int depths) {
  return std::clamp(static_cast<int>(sample.depth * depths), 0, depths - 1);
}

std::pair<double, double> Interval(int64_t right, int64_t count) {
  if (count == 0) return {0, 1};
  constexpr double kZ = 1.959964;
  const double n = static_cast<double>(count), p = static_cast<double>(right) / n, z2 = kZ * kZ;
  const double middle = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kZ * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n);
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

std::string FormatTable(const std::vector<Sample>& samples, int depths) {
  std::string out =
      absl::StrFormat("%-12s %9s %9s %5s  %-14s %-34s %-10s %-10s %-11s %-9s %9s  %s\n", "task",
                      "tokens", "mounted", "docs", "variant", "exact answers  right    95 %",
                      "gold hit %", "first %", "gold weight", "BM25 %", "answer ms", "means");
  for (const auto& [key, cell] : Group(samples)) {
    const auto& [task, tokens, variant] = key;
    absl::StrAppendFormat(&out, "%-12s %9d %9d %5d  %-14s %-34s %-10s %-10s %-11s %-9s %9.0f  %s\n",
                          task, tokens, cell.mounted / cell.count, cell.documents, variant,
                          Rate(cell), PerGroup(cell, &Finds::hits, 100),
                          PerGroup(cell, &Finds::firsts, 100), PerGroup(cell, &Finds::weight, 1),
                          Bm25Text(cell), cell.Mean(cell.answer_ms), NumbersText(cell));
  }
  AppendCells("needle in one chunk, answer in one block", Part(samples, InOneChunk), &out);
  AppendCells("needle straddles two chunks", Part(samples, Straddles), &out);
  AppendCells("answer crosses a block boundary", Part(samples, Crosses), &out);
  for (int d = 0; depths > 1 && d < depths; ++d) {
    AppendCells(absl::StrFormat("depth %d to %d %%", 100 * d / depths, 100 * (d + 1) / depths),
                Part(samples, [=](const Sample& s) { return DepthBucket(s, depths) == d; }), &out);
  }
  return out;
}

Json ToJson(const std::vector<Sample>& samples, int depths) {
  Json by_depth = Json::array(), all = Json::array();
  for (int d = 0; d < depths; ++d) {
    for (Json& cell :
         CellsJson(Part(samples, [=](const Sample& s) { return DepthBucket(s, depths) == d; }))) {
      cell["depth_from"] = static_cast<double>(d) / depths;
      cell["depth_to"] = static_cast<double>(d + 1) / depths;
      by_depth.push_back(cell);
    }
  }
  for (const Sample& sample : samples) all.push_back(SampleJson(sample));
  return {{"cells", CellsJson(Group(samples))},
          {"one_chunk", CellsJson(Part(samples, InOneChunk))},
          {"straddling", CellsJson(Part(samples, Straddles))},
          {"crossing", CellsJson(Part(samples, Crosses))},
          {"by_depth", by_depth},
          {"samples", all}};
}

}  // namespace recollect::cli::niah
