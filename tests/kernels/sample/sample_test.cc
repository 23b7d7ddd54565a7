#include "kernels/sample/sample.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "kernels/cuda/cuda_order.h"
#include "kernels/sample/row_greatest.h"
#include "kernels/sample/sample_total.h"
#include "kernels/sample/sample_weights.h"
#include "tests/kernels/sample/sample_operation_cases.h"

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
  sample_cases::ExpectOrder(sample_cases::Expected);
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

// The definition in integers: all keys sorted, all weights summed one after the other.
int32_t ByDefinition(const std::vector<float>& logits, const SampleSettings& settings,
                     const NeverChosen& never) {
  std::vector<uint64_t> keys;
  for (int32_t i = 0; i < std::ssize(logits); ++i) {
    const uint64_t key = cuda::PackChoice(logits[static_cast<size_t>(i)], i);
    if (key != 0 && i != never.first && i != never.second) keys.push_back(key);
  }
  if (keys.empty()) return -1;
  std::ranges::sort(keys, std::greater());
  const auto most = static_cast<size_t>(settings.top_k);
  if (most > 0 && most < keys.size()) keys.resize(most);
  const float greatest = cuda::LogitOf(keys[0]);
  std::vector<uint64_t> sums;  // of the weights up to each
  for (const uint64_t key : keys) {
    const uint64_t weight = cuda::WeightOf(cuda::LogitOf(key), greatest, settings.temperature);
    sums.push_back(weight + (sums.empty() ? 0 : sums.back()));
  }
  uint64_t total = sums.back();
  if (settings.top_p < 1) {
    total = *std::ranges::lower_bound(sums, cuda::ShareOf(settings.top_p, total));
  }
  const uint64_t before = cuda::WeightBefore(settings.draw, total);
  return cuda::ChoiceOf(
      keys[static_cast<size_t>(std::ranges::upper_bound(sums, before) - sums.begin())]);
}

// Rows of 1000 logits that lie as far apart as `deviation` says, with some that are not finite.
TEST(SampleTest, ChoosesWhatTheDefinitionInIntegersChooses) {
  uint32_t seed = 0;
  for (const float deviation : {0.0f, 0.3f, 3.0f, 60.0f, 1e30f}) {
    for (const float temperature : {1e-3f, 0.8f, 5.0f, kInf}) {
      for (const int32_t top_k : {0, 1, 40, 700, 100000}) {
        for (const double top_p : {1.0, 0.95, 0.2}) {
          std::vector<float> logits = Normals(1000, ++seed, 1);
          for (float& logit : logits) logit *= deviation;
          logits[seed % 1000] = std::nanf("");
          logits[(seed * 7) % 1000] = -kInf;
          if (seed % 16 == 0) logits[(seed * 3) % 1000] = kInf;
          const NeverChosen never = {static_cast<int32_t>(seed % 5) * 250 - 1,
                                     static_cast<int32_t>(seed % 3) - 1};
          for (const double draw : {0.0, 0.3, 0.99, 1 - 0x1p-53}) {
            const SampleSettings settings = {temperature, top_k, top_p, draw};
            ASSERT_EQ(SampleOnce(logits, settings, never), ByDefinition(logits, settings, never))
                << "seed " << seed << ", temperature " << temperature << ", top-k " << top_k
                << ", top-p " << top_p << ", draw " << draw;
          }
        }
      }
    }
  }
}

TEST(SampleTotalTest, EveryInstructionSetHasTheSumOfTheWeights) {
  for (const int64_t count : {1, 7, 16, 1000}) {
    for (const float deviation : {0.3f, 10.0f, 1e30f}) {
      for (const float temperature : {1e-40f, 0.8f, 5.0f, kInf}) {
        std::vector<float> logits = Normals(count, static_cast<uint32_t>(count), deviation);
        logits.push_back(std::nanf(""));
        logits.push_back(-kInf);
        const float greatest = logits[static_cast<size_t>(Argmax(logits))];
        uint64_t expected = 0;
        for (int64_t i = 0; i < count; ++i) {
          expected += cuda::WeightOf(logits[static_cast<size_t>(i)], greatest, temperature);
        }
        for (const Isa isa : RunnableIsas()) {
          OpContext ctx(isa);
          EXPECT_EQ(SampleTotal(ctx, logits.data(), std::ssize(logits), greatest, temperature),
                    expected)
              << IsaName(isa) << ", " << count << " logits, temperature " << temperature;
        }
      }
    }
  }
}

TEST(RowGreatestTest, EveryInstructionSetFindsIt) {
  for (const int64_t count : {0, 1, 15, 16, 63, 64, 65, 1000}) {
    for (int64_t at = 0; at < count; ++at) {
      std::vector<float> x = Normals(count, static_cast<uint32_t>(count));
      for (int64_t i = at % 5; i < count; i += 5) x[static_cast<size_t>(i)] = std::nanf("");
      x[static_cast<size_t>(at)] = 100;
      for (const Isa isa : RunnableIsas()) {
        OpContext ctx(isa);
        EXPECT_EQ(RowGreatest(ctx, x.data(), count), 100) << IsaName(isa) << ", " << at;
      }
    }
    for (const Isa isa : RunnableIsas()) {
      OpContext ctx(isa);
      const std::vector<float> none(static_cast<size_t>(count), std::nanf(""));
      EXPECT_EQ(RowGreatest(ctx, none.data(), count), -kInf) << IsaName(isa);
    }
  }
}

TEST(ArgmaxTest, TheFirstOfTiesInALongRowWhateverIsNeverChosen) {
  constexpr int32_t kCount = 5000;
  for (const int32_t first : {0, 1, 1023, 1024, 2500, 4998}) {
    std::vector<float> logits(kCount, -1.0f);
    logits[static_cast<size_t>(first)] = -0.0f;
    logits[kCount - 1] = 0.0f;
    EXPECT_EQ(Argmax(logits), first);
    EXPECT_EQ(Argmax(logits, {first, -1}), kCount - 1);
    EXPECT_EQ(Argmax(logits, {kCount + 7, first}), kCount - 1);
    EXPECT_EQ(Argmax(logits, {kCount - 1, first}), first == 0 ? 1 : 0);
    EXPECT_EQ(Argmax(logits, {first, first}), kCount - 1);
  }
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
