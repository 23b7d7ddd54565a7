#include "tests/support/metrics_text.h"

#include <cmath>
#include <limits>
#include <optional>
#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace recollect {
namespace {

using Family = MetricsText::Family;

// What a histogram's buckets have in common: its labels without le.
struct Buckets {
  double last_bound = -std::numeric_limits<double>::infinity(), last_count = 0;
};

std::string FamilyOf(const MetricsText& text, const std::string& sample) {
  if (text.families.contains(sample)) return sample;
  for (const char* suffix : {"_bucket", "_sum", "_count"}) {
    absl::string_view name = sample;
    if (!absl::ConsumeSuffix(&name, suffix)) continue;
    const auto found = text.families.find(std::string(name));
    if (found != text.families.end() && found->second.type == "histogram") return std::string(name);
  }
  return "";
}

std::optional<double> Number(const std::string& text) {
  double value = 0;
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::nan("");
  return absl::SimpleAtod(text, &value) ? std::optional(value) : std::nullopt;
}

void CheckName(const std::string& name, const Family& family, std::vector<std::string>& problems) {
  static const std::regex kName("[a-z][a-z0-9]*(_[a-z0-9]+)*");
  // As promtool has them: other units than the base ones, and parts of names that say no unit.
  static const std::set<std::string> kNoUnits = {
      "ms",        "milliseconds", "microseconds", "nanoseconds", "minutes", "hours",
      "days",      "kb",           "mb",           "gb",          "kib",     "mib",
      "kilobytes", "megabytes",    "bits",         "percent",     "percents"};
  const auto problem = [&](const char* what) {
    problems.push_back(absl::StrCat(name, ": ", what));
  };
  if (!std::regex_match(name, kName)) problem("not lower case with single underscores");
  for (const absl::string_view part : absl::StrSplit(name, '_'))
    if (kNoUnits.contains(std::string(part))) problem("not in base units");
  if (family.help.empty()) problem("no help");
  if ((family.type == "counter") != absl::EndsWith(name, "_total"))
    problem("counters, and only they, end with _total");
  for (const char* suffix : {"_bucket", "_sum", "_count"})
    if (absl::EndsWith(name, suffix)) problem("ends as a part of a histogram");
  if (family.type != "counter" && family.type != "gauge" && family.type != "histogram")
    problem("no type, or another than counter, gauge, histogram");
}

class Parser {
 public:
  explicit Parser(MetricsText& text) : text_(text) {}

  void Line(const std::string& line) {
    static const std::regex kComment(R"(# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))");
    static const std::regex kSample(
        R"((([a-zA-Z_:][a-zA-Z0-9_:]*)(\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\["\\n])*",?)*)\})?) (\S+))");
    std::smatch match;
    if (std::regex_match(line, match, kComment)) {
      Family& family = text_.families[match[2]];
      std::string& field = match[1] == "HELP" ? family.help : family.type;
      if (!field.empty()) Problem(line, "given twice");
      if (!family.samples.empty()) Problem(line, "after its samples");
      field = match[3];
      last_ = match[2];
    } else if (std::regex_match(line, match, kSample)) {
      Sample(line, match[1], match[2], match[4], match[5]);
    } else {
      Problem(line, "neither a comment nor a sample");
    }
  }

 private:
  void Problem(const std::string& line, const char* what) {
    text_.problems.push_back(absl::StrCat(what, ": ", line));
  }

  void Sample(const std::string& line, const std::string& whole, const std::string& name,
              const std::string& labels, const std::string& number) {
    const std::string family = FamilyOf(text_, name);
    if (family.empty()) return Problem(line, "of no family");
    if (family != last_) Problem(line, "not among the lines of its family");
    const std::optional<double> value = Number(number);
    if (!value.has_value() || std::isnan(*value)) return Problem(line, "no number");
    Family& of = text_.families[family];
    if (of.type == "counter" && *value < 0) Problem(line, "a counter below 0");
    if (!of.samples.emplace(whole, *value).second) Problem(line, "given twice");
    if (of.type != "histogram") return;
    if (name == family + "_bucket") {
      static const std::regex kBound(R"re((^|,)le="([^"]*)")re");
      std::smatch bound;
      if (!std::regex_search(labels, bound, kBound)) return Problem(line, "a bucket without le");
      Buckets& buckets =
          buckets_[absl::StrCat(family, "|", std::regex_replace(labels, kBound, ""))];
      const std::optional<double> le = Number(bound[2]);
      if (!le.has_value() || !(*le > buckets.last_bound)) Problem(line, "bounds do not ascend");
      if (*value < buckets.last_count) Problem(line, "counts do not ascend");
      buckets = {le.value_or(0), *value};
    } else if (name == family + "_count") {
      counts_[absl::StrCat(family, "|", labels)] = *value;
    }
  }

 public:
  void End() {
    for (const auto& [name, family] : text_.families) CheckName(name, family, text_.problems);
    for (const auto& [key, buckets] : buckets_) {
      const auto count = counts_.find(key);
      if (!std::isinf(buckets.last_bound) || count == counts_.end() ||
          count->second != buckets.last_count)
        Problem(key, "the bucket +Inf is not there, or is not the count");
    }
    for (const auto& [key, count] : counts_)
      if (!buckets_.contains(key)) Problem(key, "a histogram without buckets");
  }

 private:
  MetricsText& text_;
  std::string last_;
  std::map<std::string, Buckets> buckets_;
  std::map<std::string, double> counts_;
};

}  // namespace

double MetricsText::value(const std::string& sample) const {
  for (const auto& [name, family] : families) {
    const auto found = family.samples.find(sample);
    if (found != family.samples.end()) return found->second;
  }
  return -1;
}

std::vector<std::string> MetricsText::series() const {
  std::vector<std::string> names;
  for (const auto& [name, family] : families) {
    if (family.type == "histogram") {
      for (const char* suffix : {"_bucket", "_sum", "_count"}) names.push_back(name + suffix);
    } else {
      names.push_back(name);
    }
  }
  return names;
}

MetricsText ParseMetrics(const std::string& text) {
  MetricsText out;
  Parser parser(out);
  if (text.empty() || text.back() != '\n') out.problems.push_back("no newline at the end");
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
    parser.Line(std::string(line));
  parser.End();
  return out;
}

}  // namespace recollect
