#include "engine/sampler.h"

#include <cmath>
#include <limits>
#include <map>

#include "gtest/gtest.h"

namespace recollect::engine {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

model::ModelConfig Config() {
  model::ModelConfig config;
  config.unk_id = 0;
  config.lmk_id = 1;
  config.eos_id = 2;
  return config;
}

std::map<int32_t, int> Histogram(const Sampling& sampling, const std::vector<float>& logits,
                                 int n) {
  const model::ModelConfig config = Config();
  Sampler sampler(config, sampling);
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sampler.Sample(logits, i)];
  return counts;
}

TEST(SamplerTest, GreedyTakesTheLargestAndTheLowerIdOfEquals) {
  const model::ModelConfig config = Config();
  Sampler sampler(config, {});
  EXPECT_EQ(sampler.Sample(std::vector<float>{9, 9, 1, 3, 3, 2}, 0), 3);
  EXPECT_EQ(sampler.Sample(std::vector<float>{9, 9, 4, 3}, 0), 2) << "eos may be chosen";
  EXPECT_EQ(sampler.Sample(std::vector<float>{0, 0, kNan, -kInf, -5}, 0), 4);
  EXPECT_EQ(sampler.Sample(std::vector<float>{0, 0, kNan}, 0), -1);
}

TEST(SamplerTest, FrequenciesFollowTheSoftmax) {
  const std::vector<float> logits = {50, 50, 0, 1, 2};
  const auto counts = Histogram({.temperature = 2, .seed = 5}, logits, 20000);
  const double weights[] = {1, std::exp(0.5), std::exp(1.0)};
  const double total = weights[0] + weights[1] + weights[2];
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(counts.at(2 + i) / 20000.0, weights[i] / total, 0.02);
  }
  EXPECT_EQ(counts.size(), 3u);
}

TEST(SamplerTest, TopKAndTopPCutTheTail) {
  const std::vector<float> logits = {0, 0, 1, 5, 5, 4, 0};
  EXPECT_EQ(Histogram({.temperature = 1, .top_k = 1}, logits, 100).size(), 1u);
  EXPECT_EQ(Histogram({.temperature = 1, .top_k = 1}, logits, 100).begin()->first, 3);
  EXPECT_EQ(Histogram({.temperature = 1, .top_k = 3}, logits, 1000).size(), 3u);
  EXPECT_EQ(Histogram({.temperature = 1, .top_p = 1e-9}, logits, 100).size(), 1u);
  EXPECT_EQ(Histogram({.temperature = 1, .top_p = 0.5}, logits, 1000).size(), 2u);
}

TEST(SamplerTest, ATokenDependsOnSeedAndNumberOnly) {
  const std::vector<float> logits(100, 1.0f);
  const model::ModelConfig config = Config();
  Sampler once(config, {.temperature = 1, .seed = 9}), again(config, {.temperature = 1, .seed = 9});
  std::vector<int32_t> forward, backward;
  for (int i = 0; i < 50; ++i) forward.push_back(once.Sample(logits, i));
  for (int i = 49; i >= 0; --i) backward.insert(backward.begin(), again.Sample(logits, i));
  EXPECT_EQ(forward, backward);
}

}  // namespace
}  // namespace recollect::engine
