// The judge, against the golden cases of its oracle, train/memory/judge.py.
#include "model/judge.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using nlohmann::json;

JudgeConfig ConfigOf(const json& judge) {
  JudgeConfig config;
  config.sentence_tokens = judge["sentence_tokens"];
  config.refusal = judge["refusal"];
  config.linear = judge["linear"].get<std::vector<double>>();
  for (const json& unit : judge["hidden"]) {
    const auto weights = unit.get<std::vector<double>>();
    config.hidden.push_back({weights[0], weights[1], {weights.begin() + 2, weights.end()}});
  }
  return config;
}

TEST(JudgeTest, ScoresAreThoseOfTheOracle) {
  const json golden = json::parse(ReadFile(SourceDir() + "/tests/model/judge_golden.json"));
  const Words words = Words::Make(golden["texts"].get<std::vector<std::string>>());
  const Judge judge(ConfigOf(golden["judge"]), words);
  for (const json& one : golden["cases"]) {
    std::vector<std::vector<int32_t>> texts;
    std::vector<ReadBlock> blocks;
    for (const json& block : one["blocks"]) texts.push_back(block[0].get<std::vector<int32_t>>());
    for (size_t i = 0; i < texts.size(); ++i)
      blocks.push_back({texts[i], one["blocks"][i][1], one["blocks"][i][2]});
    std::vector<Candidate> candidates;
    for (const json& candidate : one["candidates"])
      candidates.push_back(
          {candidate[0].get<std::vector<int32_t>>(), candidate[1], candidate[2], candidate[3]});
    const auto question = one["question"].get<std::vector<int32_t>>();
    const std::vector<double> scores =
        judge.Scores({question, blocks, one["unneeded"], one["nothing"]}, candidates);
    ASSERT_EQ(scores.size(), one["scores"].size());
    for (size_t k = 0; k < scores.size(); ++k)
      EXPECT_NEAR(scores[k], one["scores"][k].get<double>(), 1e-4) << one.dump();
  }
}

}  // namespace
}  // namespace recollect::model
