#include "kernels/sample/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "tests/kernels/sample/sample_device_checks.h"

namespace recollect::kernels {
namespace {

using sample_cases::kInf;

int32_t SampleOnce(const std::vector<float>& logits, const SampleSettings& settings,
                   const NeverChosen& never = {}) {
  SampleScratch scratch;
  return Sample(logits, settings, never, scratch);
}

// How often each is chosen by draws that cover [0, 1) evenly.
std::map<int32_t, int> Histogram(SampleSettings settings, const std::vector<float>& logits, int n,
                                 const NeverChosen& never = {}) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) {
    settings.draw = (i + 0.5) / n;
    ++counts[SampleOnce(logits, settings, never)];
  }
  return counts;
}

TEST(SampleTest, TheBestOfTies) {
  sample_cases::CheckOrder([](const std::vector<float>& logits,
                              const sample_cases::Settings& settings, const NeverChosen& never,
                              size_t) { return sample_cases::Expected(logits, settings, never); });
  EXPECT_EQ(SampleOnce({}, {}), -1);
  EXPECT_EQ(SampleOnce({}, {.temperature = 1}), -1);
  EXPECT_EQ(SampleOnce({1, 7, kInf, kInf}, {.temperature = 1, .draw = 0.6}), 3)
      << "equals share the weight";
}

TEST(SampleTest, FrequenciesFollowTheSoftmax) {
  const std::vector<float> logits = {50, 50, 0, 1, 2};
  const auto counts = Histogram({.temperature = 2}, logits, 20000, {0, 1});
  const double weights[] = {1, std::exp(0.5), std::exp(1.0)};
  const double total = weights[0] + weights[1] + weights[2];
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(counts.at(2 + i) / 20000.0, weights[i] / total, 1e-4);
  }
  EXPECT_EQ(counts.size(), 3u);
}

TEST(SampleTest, TopKAndTopPCutTheTail) {
  const std::vector<float> logits = {0, 0, 1, 5, 5, 4, 0};
  using Counts = std::map<int32_t, int>;
  EXPECT_EQ(Histogram({.temperature = 1, .top_k = 1}, logits, 100), (Counts{{3, 100}}));
  EXPECT_EQ(Histogram({.temperature = 1, .top_k = 3}, logits, 1000).size(), 3u);
  EXPECT_EQ(Histogram({.temperature = 1, .top_p = 1e-9}, logits, 100), (Counts{{3, 100}}));
  EXPECT_EQ(Histogram({.temperature = 1, .top_p = 0.5}, logits, 100), (Counts{{3, 50}, {4, 50}}));
  EXPECT_EQ(Histogram({.temperature = kInf}, logits, 70).size(), 7u);
  // Half of what top-k leaves, not of all.
  EXPECT_EQ(Histogram({.temperature = kInf, .top_k = 4, .top_p = 0.5}, logits, 100),
            (Counts{{3, 50}, {4, 50}}));
}

// The definition in double: the token at `draw` of the weight, in the order of the logits.
TEST(SampleTest, AgreesWithTheDefinitionInDouble) {
  int compared = 0;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    const std::vector<float> logits = Normals(300, seed);
    const SampleSettings settings = {.temperature = 0.2f + 0.01f * static_cast<float>(seed),
                                     .top_k = static_cast<int32_t>(seed % 5 * 40),
                                     .top_p = seed % 3 == 0 ? 1.0 : 0.5 + 0.002 * seed,
                                     .draw = std::fmod(0.618034 * seed, 1.0)};
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
    if (settings.top_k > 0) order.resize(std::min<size_t>(order.size(), settings.top_k));
    std::vector<double> sums;  // of the weights up to each
    for (const int32_t id : order) {
      const double exponent = (double{logits[id]} - logits[order[0]]) / settings.temperature;
      sums.push_back((sums.empty() ? 0 : sums.back()) + std::exp(exponent));
    }
    const auto reach = [&](double weight) { return std::ranges::lower_bound(sums, weight); };
    const auto nearly = [&](auto at, double weight) {
      return std::abs(*at - weight) < 1e-6 * sums.back() ||
             (at != sums.begin() && std::abs(at[-1] - weight) < 1e-6 * sums.back());
    };
    auto last = sums.end() - 1;
    if (settings.top_p < 1) {
      last = reach(settings.top_p * sums.back());
      if (nearly(last, settings.top_p * sums.back())) continue;
    }
    const auto drawn = reach(settings.draw * *last);
    if (nearly(drawn, settings.draw * *last)) continue;  // either would do
    ++compared;
    EXPECT_EQ(SampleOnce(logits, settings), order[static_cast<size_t>(drawn - sums.begin())])
        << seed;
  }
  EXPECT_GT(compared, 190);
}

}  // namespace
}  // namespace recollect::kernels
