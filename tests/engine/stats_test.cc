// The table of statistics by itself. That all surfaces have its rows:
// tests/service/codec/encode_test.cc, tests/http/api/openapi_test.cc, tests/e2e/metrics_e2e_test.cc
// and tools/check_statistics.py.
#include "engine/stats.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <variant>

namespace recollect::engine {
namespace {

size_t SizeOf(const Statistic& statistic) {
  static const EngineStats kStats;
  return std::visit([](auto member) { return sizeof(kStats.*member); }, statistic.member);
}

TEST(StatsTest, EveryMemberHasARow) {
  size_t bytes = sizeof(EngineStats::store_table_bytes);  // the one that is none
  for (const Statistic& statistic : kStatistics) bytes += SizeOf(statistic);
  EXPECT_LT(sizeof(EngineStats) - bytes, sizeof(int64_t)) << "more than what aligns members";
}

TEST(StatsTest, ARowIsTheOnlyOneOfItsNameAndMetric) {
  std::set<std::string> names;
  std::set<std::pair<std::string, std::string>> metrics;
  for (const Statistic& row : kStatistics) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    if (row.metric == nullptr) continue;
    const std::string label = row.label == nullptr ? "" : row.label;
    EXPECT_TRUE(metrics.insert({row.metric, label}).second) << row.metric << ", " << label;
  }
}

TEST(StatsTest, MetricsWithALabelSayWhichOne) {
  std::set<std::string> labelled, said;
  for (const Statistic& row : kStatistics) {
    if (row.label != nullptr) labelled.insert(row.metric);
  }
  for (const MetricLabel& label : kLabels) said.insert(label.metric);
  EXPECT_EQ(labelled, said);
  EXPECT_EQ(said.size(), std::size(kLabels));
}

TEST(StatsTest, ACopyHasTheCountsOfItsMoment) {
  Counts counts;
  ++counts.steps;
  counts.generated_tokens += 5;
  EngineStats stats;
  static_cast<Counts&>(stats) = counts;
  ++counts.steps;
  EXPECT_EQ(stats.steps, 1);
  EXPECT_EQ(stats.generated_tokens, 5);
  EXPECT_EQ(counts.steps, 2);
}

}  // namespace
}  // namespace recollect::engine
