#include "model/config/pattern.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/types.h"

namespace recollect::model {
namespace {

template <typename T>
void ShortenWhenAlike(std::vector<T>& entries) {
  RECOLLECT_CHECK(!entries.empty());
  const auto same = [&](const T& entry) { return entry == entries.front(); };
  if (std::all_of(entries.begin(), entries.end(), same)) entries.resize(1);
}

std::string PatternText(const LocalPattern& pattern) {
  const std::string span =
      pattern.span == kUnboundedSpan ? "unbounded" : absl::StrCat(pattern.span);
  return absl::StrCat("(window ", pattern.window, ", dilation ", pattern.dilation, ", initial ",
                      pattern.initial, ", span ", span, ")");
}

}  // namespace

const char* BlockScoreName(BlockScore score) {
  return score == BlockScore::kQuest ? "quest" : "moba";
}

LocalPatterns::LocalPatterns(std::vector<HeadPatterns> layers) : layers_(std::move(layers)) {
  for (HeadPatterns& heads : layers_) ShortenWhenAlike(heads);
  ShortenWhenAlike(layers_);
}

LocalPatterns LocalPatterns::With(int64_t LocalPattern::*field, int64_t value) const {
  return With(field, LayerNumbers(layers_.size(), {value}));
}

LocalPatterns LocalPatterns::WithBlocks(const BlockChoice& blocks) const {
  LocalPatterns patterns = *this;
  patterns.blocks_ = blocks;
  return patterns;
}

LocalPatterns LocalPatterns::With(int64_t LocalPattern::*field, const LayerNumbers& values) const {
  std::vector<HeadPatterns> layers;
  for (size_t i = 0; i < values.size(); ++i) {
    const HeadPatterns& before = layer(static_cast<int>(i));
    HeadPatterns& heads = layers.emplace_back(std::max(before.size(), values[i].size()));
    for (size_t h = 0; h < heads.size(); ++h) {
      heads[h] = before[before.size() == 1 ? 0 : h];
      heads[h].*field = values[i][values[i].size() == 1 ? 0 : h];
    }
  }
  return LocalPatterns(std::move(layers)).WithContext(context_).WithBlocks(blocks_);
}

LocalPatterns LocalPatterns::WithContext(int64_t context) const {
  LocalPatterns patterns = *this;
  patterns.context_ = context;
  return patterns;
}

std::string LocalPatterns::Text() const {
  const auto heads_text = [](const HeadPatterns& heads) {
    if (heads.size() == 1) return PatternText(heads[0]);
    return absl::StrCat("heads [",
                        absl::StrJoin(heads, ", ",
                                      [](std::string* out, const LocalPattern& pattern) {
                                        absl::StrAppend(out, PatternText(pattern));
                                      }),
                        "]");
  };
  std::string end;
  if (context_ > 0) absl::StrAppend(&end, " for context ", context_);
  if (blocks_.count > 0) {
    absl::StrAppend(&end, " with the best ", blocks_.count, " blocks of ", blocks_.block, " by ",
                    BlockScoreName(blocks_.score));
  }
  if (layers_.size() == 1) return heads_text(layers_[0]) + end;
  std::vector<std::string> parts;
  for (const HeadPatterns& heads : layers_) parts.push_back(heads_text(heads));
  return absl::StrCat("layers [", absl::StrJoin(parts, ", "), "]", end);
}

std::vector<HeadRun> RunsOfHeads(const HeadPatterns& patterns, int heads) {
  RECOLLECT_CHECK(patterns.size() == 1 || static_cast<int>(patterns.size()) == heads);
  if (patterns.size() == 1) return {{patterns[0], 0, heads}};
  std::vector<HeadRun> runs;
  for (int head = 0; head < heads; ++head) {
    const LocalPattern& pattern = patterns[static_cast<size_t>(head)];
    if (runs.empty() || !(runs.back().pattern == pattern)) runs.push_back({pattern, head, 0});
    ++runs.back().heads;
  }
  return runs;
}

int64_t AttendedCount(const LocalPattern& pattern, int64_t position) {
  const int64_t before =
      std::max<int64_t>(position - pattern.window, 0);  // earlier than the window
  const int64_t initial = std::min(before, pattern.initial);
  const int64_t near = position + 1 - before + initial;
  if (pattern.dilation == kNoDilation) return near;
  // x / D of the dilated positions lie before position x.
  const int64_t first = std::clamp(position - pattern.span, initial, before);
  return near + before / pattern.dilation - first / pattern.dilation;
}

std::vector<std::string> PatternProblems(const LocalPattern& pattern, bool blocks) {
  std::vector<std::string> problems;
  const auto check = [&](const char* name, int64_t value) {
    if (value < 0 || value > kUnboundedSpan) {
      problems.push_back(absl::StrCat(name, " is ", value, ", expected 0 to ", kUnboundedSpan));
    }
  };
  check("window", pattern.window);
  check("initial", pattern.initial);
  check("span", pattern.span);
  if (pattern.span < pattern.window) {
    problems.push_back(
        absl::StrCat("span is ", pattern.span, ", expected at least window ", pattern.window));
  }
  if (blocks) {
    if (pattern.dilation < 1 || kBlockRows % pattern.dilation != 0) {
      problems.push_back(
          absl::StrCat("dilation is ", pattern.dilation, ", expected a divisor of ", kBlockRows));
    }
  } else if (pattern.dilation != kNoDilation &&
             (pattern.dilation < 1 || pattern.dilation > kUnboundedSpan)) {
    problems.push_back(absl::StrCat("dilation is ", pattern.dilation, ", expected ", kNoDilation,
                                    " for none, or 1 to ", kUnboundedSpan));
  }
  return problems;
}

}  // namespace recollect::model
