#include "cli/niah/report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace recollect::cli::niah {
namespace {

struct Cell {
  int64_t count = 0, right = 0, mounted = 0, documents = 0;
  int64_t ingested_tokens = 0, generated_tokens = 0;
  double ingest_s = 0, answer_ms = 0, generation_ms = 0;
  std::vector<double> hits, weights;  // sums, per group

  void Add(const Sample& s) {
    ++count;
    right += s.right ? 1 : 0;
    mounted += s.tokens_mounted;
    documents = s.documents;
    ingested_tokens += s.ingested_tokens;
    ingest_s += s.ingest_s;
    answer_ms += s.answer_ms;
    generated_tokens += s.generated_tokens;
    generation_ms += s.generation_ms;
    hits.resize(std::max(hits.size(), s.gold_hit.size()));
    weights.resize(hits.size());
    for (size_t g = 0; g < s.gold_hit.size(); ++g) {
      hits[g] += s.gold_hit[g] ? 1 : 0;
      weights[g] += s.gold_weight[g];
    }
  }
  double Rate() const {
    return count == 0 ? 0 : static_cast<double>(right) / static_cast<double>(count);
  }
};

using Key = std::tuple<std::string, int64_t, std::string>;  // task, tokens, phrasing

std::map<Key, Cell> Group(const std::vector<Sample>& samples,
                          const std::function<bool(const Sample&)>& include) {
  std::map<Key, Cell> cells;
  for (const Sample& s : samples) {
    if (include(s)) cells[{s.task, s.tokens_asked, s.phrasing}].Add(s);
  }
  return cells;
}

int DepthBucket(const Sample& s, int depths) {
  return std::min(depths - 1, static_cast<int>(s.depth * depths));
}

std::string Rate(const Cell& cell) {
  const auto [low, high] = Interval(cell.right, cell.count);
  return absl::StrFormat("%5.1f %%  %4d/%-4d [%5.1f, %5.1f]", 100 * cell.Rate(), cell.right,
                         cell.count, 100 * low, 100 * high);
}

std::string PerGroup(const std::vector<double>& sums, int64_t count, double scale) {
  std::string text;
  for (const double sum : sums) {
    absl::StrAppend(
        &text, text.empty() ? "" : "/",
        absl::StrFormat("%.*f", scale == 1 ? 2 : 0, scale * sum / static_cast<double>(count)));
  }
  return text;
}

void AppendCells(const std::string& title, const std::map<Key, Cell>& cells, std::string* out) {
  if (cells.empty()) return;
  absl::StrAppendFormat(out, "\n%s\n", title);
  for (const auto& [key, cell] : cells) {
    const auto& [task, tokens, phrasing] = key;
    absl::StrAppendFormat(out, "  %-12s %9d  %-9s %s\n", task, tokens, phrasing, Rate(cell));
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

Json CellJson(const Key& key, const Cell& cell) {
  const auto [low, high] = Interval(cell.right, cell.count);
  const auto mean = [&](double sum) { return sum / static_cast<double>(cell.count); };
  Json hits = Json::array(), weights = Json::array();
  for (size_t g = 0; g < cell.hits.size(); ++g) {
    hits.push_back(mean(cell.hits[g]));
    weights.push_back(mean(cell.weights[g]));
  }
  return {{"task", std::get<0>(key)},
          {"tokens", std::get<1>(key)},
          {"phrasing", std::get<2>(key)},
          {"samples", cell.count},
          {"right", cell.right},
          {"rate", cell.Rate()},
          {"low95", low},
          {"high95", high},
          {"mounted_tokens", mean(static_cast<double>(cell.mounted))},
          {"documents", cell.documents},
          {"gold_hit_rate", hits},
          {"gold_weight", weights},
          {"answer_ms", mean(cell.answer_ms)},
          {"ingest_tokens_per_s",
           cell.ingest_s > 0 ? static_cast<double>(cell.ingested_tokens) / cell.ingest_s : 0},
          {"generate_tokens_per_s",
           cell.generation_ms > 0
               ? 1000.0 * static_cast<double>(cell.generated_tokens) / cell.generation_ms
               : 0}};
}

Json CellsJson(const std::map<Key, Cell>& cells) {
  Json array = Json::array();
  for (const auto& [key, cell] : cells) array.push_back(CellJson(key, cell));
  return array;
}

Json SampleJson(const Sample& s) {
  return {{"task", s.task},
          {"phrasing", s.phrasing},
          {"tokens", s.tokens_asked},
          {"mounted_tokens", s.tokens_mounted},
          {"depth", s.depth},
          {"question", s.question},
          {"value", s.value},
          {"answer", s.answer},
          {"right", s.right},
          {"needle_in", Name(s.span)},
          {"crosses_block", s.crosses_block},
          {"gold_hit", s.gold_hit},
          {"gold_weight", s.gold_weight},
          {"answer_ms", s.answer_ms}};
}

bool InOneChunk(const Sample& s) { return s.span == Sample::Span::kOneChunk && !s.crosses_block; }
bool Straddles(const Sample& s) { return s.span == Sample::Span::kTwoChunks; }
// Not of samples without a needle, which have no gold chunk.
bool Unknown(const Sample& s) { return s.span == Sample::Span::kUnknown && !s.gold_hit.empty(); }
bool Crosses(const Sample& s) { return s.crosses_block; }

}  // namespace

std::pair<double, double> Interval(int64_t right, int64_t count) {
  if (count == 0) return {0, 1};
  constexpr double kZ = 1.959964;
  const double n = static_cast<double>(count), p = static_cast<double>(right) / n, z2 = kZ * kZ;
  const double middle = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kZ * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n);
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

std::string FormatTable(const std::vector<Sample>& samples, int depths) {
  std::string out = absl::StrFormat(
      "%-12s %9s %9s %5s  %-9s %-34s %-11s %-11s %s\n", "task", "tokens", "mounted", "docs",
      "phrasing", "exact answers  right    95 %", "gold hit %", "gold weight", "answer ms");
  for (const auto& [key, cell] : Group(samples, [](const Sample&) { return true; })) {
    const auto& [task, tokens, phrasing] = key;
    absl::StrAppendFormat(&out, "%-12s %9d %9d %5d  %-9s %-34s %-11s %-11s %8.0f\n", task, tokens,
                          cell.mounted / cell.count, cell.documents, phrasing, Rate(cell),
                          PerGroup(cell.hits, cell.count, 100),
                          PerGroup(cell.weights, cell.count, 1),
                          cell.answer_ms / static_cast<double>(cell.count));
  }
  AppendCells("needle in one chunk, answer in one block", Group(samples, InOneChunk), &out);
  AppendCells("needle straddles two chunks", Group(samples, Straddles), &out);
  AppendCells("needle's chunks unknown", Group(samples, Unknown), &out);
  AppendCells("answer crosses a block boundary", Group(samples, Crosses), &out);
  for (int d = 0; depths > 1 && d < depths; ++d) {
    AppendCells(absl::StrFormat("depth %d to %d %%", 100 * d / depths, 100 * (d + 1) / depths),
                Group(samples, [=](const Sample& s) { return DepthBucket(s, depths) == d; }), &out);
  }
  return out;
}

Json ToJson(const std::vector<Sample>& samples, int depths) {
  Json by_depth = Json::array(), all = Json::array();
  for (int d = 0; d < depths; ++d) {
    for (Json& cell :
         CellsJson(Group(samples, [=](const Sample& s) { return DepthBucket(s, depths) == d; }))) {
      cell["depth_from"] = static_cast<double>(d) / depths;
      cell["depth_to"] = static_cast<double>(d + 1) / depths;
      by_depth.push_back(cell);
    }
  }
  for (const Sample& sample : samples) all.push_back(SampleJson(sample));
  return {{"cells", CellsJson(Group(samples, [](const Sample&) { return true; }))},
          {"one_chunk", CellsJson(Group(samples, InOneChunk))},
          {"straddling", CellsJson(Group(samples, Straddles))},
          {"span_unknown", CellsJson(Group(samples, Unknown))},
          {"crossing", CellsJson(Group(samples, Crosses))},
          {"by_depth", by_depth},
          {"samples", all}};
}

}  // namespace recollect::cli::niah
