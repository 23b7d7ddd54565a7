#include "engine/sampler.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace recollect::engine {
namespace {

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
