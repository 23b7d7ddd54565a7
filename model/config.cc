#include "model/config.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/types.h"
#include "model/pattern.h"

namespace recollect::model {
namespace {

// "Unlimited" spans (design 2.6) are written as a large number; positions must still add without
// overflow.
constexpr int64_t kMaxSpan = int64_t{1} << 40;

}  // namespace

std::vector<std::string> PatternProblems(const LocalPattern& pattern) {
  std::vector<std::string> problems;
  const auto check = [&](const char* name, int64_t value, int64_t low) {
    if (value < low || value > kMaxSpan) {
      problems.push_back(absl::StrCat(name, " is ", value, ", expected ", low, " to ", kMaxSpan));
    }
  };
  check("window", pattern.window, 0);
  check("initial", pattern.initial, 0);
  check("span", pattern.span, 0);
  if (pattern.span < pattern.window) {
    problems.push_back(
        absl::StrCat("span is ", pattern.span, ", expected at least window ", pattern.window));
  }
  if (pattern.dilation < 1 || kBlockRows % pattern.dilation != 0) {
    problems.push_back(
        absl::StrCat("dilation is ", pattern.dilation, ", expected a divisor of ", kBlockRows));
  }
  return problems;
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

absl::Status ValidatePattern(const ModelConfig& config, const LocalPattern& pattern) {
  std::vector<std::string> problems = PatternProblems(pattern);
  const auto must_equal = [&](const char* name, int64_t asked, int64_t adapted) {
    if (asked != adapted) {
      problems.push_back(
          absl::StrCat(name, " is ", asked, ", the checkpoint is adapted to ", adapted));
    }
  };
  must_equal("window", pattern.window, config.local.window);
  must_equal("initial", pattern.initial, config.local.initial);
  must_equal("span", pattern.span, config.local.span);
  std::vector<int64_t> dilations = config.adapted_dilations;
  dilations.push_back(config.local.dilation);
  std::sort(dilations.begin(), dilations.end());
  dilations.erase(std::unique(dilations.begin(), dilations.end()), dilations.end());
  if (!std::binary_search(dilations.begin(), dilations.end(), pattern.dilation)) {
    problems.push_back(absl::StrCat("dilation is ", pattern.dilation,
                                    ", the checkpoint is adapted to ",
                                    absl::StrJoin(dilations, ", ")));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("local pattern: ", absl::StrJoin(problems, "; ")));
}

}  // namespace recollect::model
