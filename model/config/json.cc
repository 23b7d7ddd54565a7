#include "model/config/json.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "model/text/printable.h"

namespace recollect::model {

using nlohmann::json;

namespace {

// Far above what files of ours nest. Error messages show values, and the library writes them with a
// stack frame a level.
constexpr int kMaxDepth = 32;

constexpr size_t kMaxProblems = 100;
constexpr size_t kMaxProblemBytes = 500;

}  // namespace

absl::StatusOr<json> ParseJson(std::string_view text) {
  // The library keeps the last of two equal keys; in a file that describes weights that hides a
  // mistake.
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  int deepest = 0;
  // `outer`: objects and lists around what starts.
  const auto watch = [&](int outer, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
        keys.emplace_back();
        deepest = std::max(deepest, outer + 1);
        break;
      case json::parse_event_t::array_start:
        deepest = std::max(deepest, outer + 1);
        break;
      case json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case json::parse_event_t::key:
        if (!keys.back().insert(value.get<std::string>()).second && duplicate.empty()) {
          duplicate = value.get<std::string>();
        }
        break;
      default:
        break;
    }
    return true;
  };
  try {
    json value = json::parse(text.begin(), text.end(), watch);
    if (deepest > kMaxDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("nested ", deepest, " deep, expected at most ", kMaxDepth));
    }
    if (!duplicate.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("key \"", Shortened(duplicate, kMaxProblemBytes), "\" appears twice"));
    }
    return value;
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not JSON: ", Shortened(error.what(), kMaxProblemBytes)));
  }
}

absl::Status ProblemsError(const std::vector<std::string>& problems) {
  std::vector<std::string> shown;
  for (const std::string& problem : problems) {
    if (shown.size() == kMaxProblems) {
      shown.push_back(absl::StrCat("and ", problems.size() - kMaxProblems, " more"));
      break;
    }
    shown.push_back(Shortened(problem, kMaxProblemBytes));
  }
  return absl::InvalidArgumentError(absl::StrJoin(shown, "; "));
}

}  // namespace recollect::model
