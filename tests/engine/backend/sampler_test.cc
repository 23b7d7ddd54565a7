#include "engine/backend/sampler.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recollect::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(SamplerTest, IdsThatMeanNoTextAreNeverChosen) {
  model::ModelConfig config;
  config.unk_id = 0;
  config.lmk_id = 1;
  config.eos_id = 2;
  EXPECT_EQ(Argmax(config, std::vector<float>{9, 9, 1, 3, 3, 2}), 3);
  EXPECT_EQ(Argmax(config, std::vector<float>{9, 9, 4, 3}), 2) << "eos may be chosen";
}

TEST(SamplerTest, ATokenDependsOnSeedAndNumberOnly) {
  const Sampling sampling = {.temperature = 0.7, .top_p = 0.9, .top_k = 40, .seed = 9};
  std::vector<double> forward, backward;
  for (int i = 0; i < 50; ++i) forward.push_back(SettingsOf(sampling, i).draw);
  for (int i = 49; i >= 0; --i) {
    backward.insert(backward.begin(), SettingsOf(sampling, i).draw);
  }
  EXPECT_EQ(forward, backward);
  EXPECT_NE(forward[0], forward[1]);
  EXPECT_NE(forward[0], SettingsOf({.temperature = 0.7, .seed = 10}, 0).draw);
}

TEST(SamplerTest, DryTakesFromWhatWouldRepeatMore) {
  const std::vector<int32_t> generated = {5, 6, 7, 1, 6, 7, 2, 9, 5, 6, 7};
  const auto loses = [&](double multiplier, int64_t allowed) {
    std::vector<float> logits(10, 0.0f);
    PenalizeRepetition({.dry_multiplier = multiplier, .dry_allowed_length = allowed}, generated,
                       logits);
    for (float& logit : logits) logit = -logit;
    return logits;
  };
  // 1 stood behind 5 6 7, and 2 behind 6 7; 6 and 7 behind other tokens than 7.
  EXPECT_THAT(loses(0.5, 2), ElementsAre(0, 0.5f * 1.75f, 0.5f, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(loses(0.5, 3), ElementsAre(0, 0.5f, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(loses(0.5, 4), Each(0));
}

TEST(SamplerTest, DryEndsEveryCircleAndCountsNoFurtherThanItNeeds) {
  const std::vector<int32_t> circle(5000, 3);
  std::vector<float> logits(10, 0.0f);
  logits[3] = 1e6f;
  PenalizeRepetition({.dry_multiplier = 0.8}, circle, logits);
  EXPECT_LT(logits[3], 0);
  EXPECT_TRUE(std::isfinite(logits[3]));
  PenalizeRepetition({.dry_multiplier = 0.8}, {}, logits);
  logits[3] = 0;
  PenalizeRepetition({.dry_multiplier = 0.8, .dry_allowed_length = 64}, circle, logits);
  EXPECT_LT(logits[3], -1e6f);
}

TEST(SamplerTest, SettingsAreThoseOfTheRequest) {
  const kernels::SampleSettings settings =
      SettingsOf({.temperature = 0.5, .top_p = 0.9, .top_k = 40}, 0);
  EXPECT_EQ(settings.temperature, 0.5f);
  EXPECT_EQ(settings.top_k, 40);
  EXPECT_EQ(settings.top_p, 0.9);
  EXPECT_EQ(SettingsOf({}, 0).temperature, 0);
  EXPECT_EQ(SettingsOf({.temperature = 1e300}, 0).temperature,
            std::numeric_limits<float>::infinity());
  EXPECT_EQ(SettingsOf({.top_k = int64_t{1} << 40}, 0).top_k, std::numeric_limits<int32_t>::max());
}

}  // namespace
}  // namespace recollect::engine
