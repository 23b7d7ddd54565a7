// The reranker of a memory adapter: what its oracle, train/memory/reranker.py, says of sentences of
// the golden document (tests/golden/memory).
#include "model/reranker.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "model/cpu/adapter_reranker.h"
#include "model/cpu/cpu_model.h"
#include "nlohmann/json.hpp"
#include "tests/model/oracle_case.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::ElementsAreArray;

class RerankerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteTinyAdapter(directory_);
    const OracleCase golden(
        {}, SafetensorsFile::Open(TinyAdapterGolden() + "/reranker_case.safetensors").value());
    scores_ = golden.Floats("scores");
    const std::vector<int32_t> tokens = golden.Integers("tokens"), ends = golden.Integers("ends");
    auto at = tokens.begin();
    auto end = ends.begin();
    for (const int32_t length : golden.Integers("lengths")) {
      RerankerText& text = texts_.emplace_back();
      text.tokens.assign(at, at + length);
      at += length;
      do text.ends.push_back(static_cast<size_t>(*end));
      while (*end++ + 1 < length);
    }
  }
  static std::vector<std::vector<float>> ScoresOf(const CpuModel& model,
                                                  std::span<const RerankerText> texts) {
    kernels::OpContext ctx;
    RerankerRun run = model.Rerank(texts);
    for (int64_t slice = 0; slice < run.slices(); ++slice)
      for (int64_t layer = 0; layer < run.layers(); ++layer) run.RunLayer(ctx, slice, layer);
    return run.Scores();
  }
  // Those of all lines.
  std::vector<float> Scores(const CpuModel& model) const { return Joined(ScoresOf(model, texts_)); }
  static std::vector<float> Joined(const std::vector<std::vector<float>>& of_texts) {
    std::vector<float> scores;
    for (const std::vector<float>& some : of_texts)
      scores.insert(scores.end(), some.begin(), some.end());
    return scores;
  }

  const std::string directory_ = ::testing::TempDir() + "/reranker";
  std::vector<RerankerText> texts_;  // of the golden passages
  std::vector<float> scores_;
};

TEST_F(RerankerTest, ReadsWhatTheOracleReads) {
  const auto model = CpuModel::Load(directory_).value();
  const nlohmann::json cases =
      nlohmann::json::parse(ReadFile(TinyAdapterGolden() + "/reranker_case.json"));
  ASSERT_EQ(cases.size(), texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    const auto [question, sentences] =
        cases[i].get<std::pair<std::string, std::vector<std::string>>>();
    const RerankerText text = MakeRerankerText(
        *model->tokenizer(), model->config().adapter.reranker, question, sentences);
    EXPECT_THAT(text.tokens, ElementsAreArray(texts_[i].tokens)) << question;
    EXPECT_THAT(text.ends, ElementsAreArray(texts_[i].ends)) << question;
  }
}

TEST_F(RerankerTest, ScoresAsTheOracleDoes) {
  const std::vector<float> scores = Scores(*CpuModel::Load(directory_).value());
  ASSERT_EQ(scores.size(), scores_.size());
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(scores[i], scores_[i], 2e-3) << i;
  const auto [least, most] = std::ranges::minmax(scores);
  EXPECT_GT(most - least, 0.5F);
  const auto size = [](const RerankerText& text) { return std::ssize(text.tokens); };
  EXPECT_GT(size(std::ranges::max(texts_, {}, size)), LayerState::kMaxAppend);
}

TEST_F(RerankerTest, ScoresDoNotDependOnOtherTexts) {
  const auto model = CpuModel::Load(directory_).value();
  std::vector<std::vector<float>> alone;
  for (const RerankerText& text : texts_) alone.push_back(ScoresOf(*model, {&text, 1}).front());
  EXPECT_THAT(Scores(*model), ElementsAreArray(Joined(alone)));
}

// As a device's backend loads it.
TEST_F(RerankerTest, ReadsTheLayersOfTheBaseThatItNeeds) {
  const std::vector<float> whole = Scores(*CpuModel::Load(directory_).value());
  EXPECT_THAT(Scores(*CpuModel::LoadAdapter(directory_, DType::kFloat32).value()),
              ElementsAreArray(whole));
}

TEST_F(RerankerTest, ScoresNearlyTheSameInBf16) {
  const auto rounded = CpuModel::Load(directory_, DType::kBf16);
  if (!rounded.ok()) GTEST_SKIP() << "no bf16 here";
  const std::vector<float> scores = Scores(**rounded);
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(scores[i], scores_[i], 0.15) << i;
}

TEST_F(RerankerTest, TextsAreCut) {
  const auto model = CpuModel::Load(directory_).value();
  const RerankerConfig config = {
      .layers = 1, .rank = 1, .sentence_tokens = 1, .question_tokens = 1};
  const auto tokens = [&](const std::string& question, const std::vector<std::string>& sentences) {
    return MakeRerankerText(*model->tokenizer(), config, question, sentences).tokens;
  };
  const std::vector<int32_t> shortest = tokens("b", {"a"});
  EXPECT_EQ(tokens("a b b b b", {"a"}).size(), shortest.size());
  EXPECT_EQ(tokens("b", {"a b c"}).size(), shortest.size());
  EXPECT_EQ(tokens("b", {"a b c", "b"}).size(), shortest.size() + 2);
  EXPECT_EQ(tokens("b", {""}).size(), shortest.size() - 1);
}

}  // namespace
}  // namespace recollect::model
