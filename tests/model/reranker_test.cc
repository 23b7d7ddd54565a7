// The reranker of a memory adapter: what its oracle, train/memory/reranker.py, says of sentences of
// the golden document (tests/golden/memory).
#include "model/reranker.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
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
    const auto file = SafetensorsFile::Open(TinyAdapterGolden() + "/reranker_case.safetensors");
    const OracleCase golden({}, file.value());
    scores_ = golden.Floats("scores");
    const std::vector<int32_t> all = golden.Integers("tokens");
    auto at = all.begin();
    for (const int32_t length : golden.Integers("lengths")) {
      texts_.emplace_back(at, at + length);
      at += length;
    }
  }
  std::vector<float> Scores(const CpuModel& model) const {
    kernels::OpContext ctx;
    return model.Rerank(ctx, texts_);
  }

  const std::string directory_ = ::testing::TempDir() + "/reranker";
  std::vector<std::vector<int32_t>> texts_;  // RerankerTokens of the golden sentences
  std::vector<float> scores_;
};

TEST_F(RerankerTest, ReadsWhatTheOracleReads) {
  const auto model = CpuModel::Load(directory_).value();
  const nlohmann::json cases =
      nlohmann::json::parse(ReadFile(TinyAdapterGolden() + "/reranker_case.json"));
  ASSERT_EQ(cases.size(), texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    const auto [before, sentence, question] =
        cases[i].get<std::tuple<std::string, std::string, std::string>>();
    EXPECT_THAT(RerankerTokens(*model->tokenizer(), model->config().adapter.reranker,
                               {before, sentence}, question),
                ElementsAreArray(texts_[i]))
        << sentence;
  }
}

TEST_F(RerankerTest, ScoresAsTheOracleDoes) {
  const std::vector<float> scores = Scores(*CpuModel::Load(directory_).value());
  ASSERT_EQ(scores.size(), scores_.size());
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(scores[i], scores_[i], 2e-3) << i;
  const auto [least, most] = std::ranges::minmax(scores);
  EXPECT_GT(most - least, 0.5F);
  EXPECT_GT(std::ranges::max(texts_, {}, &std::vector<int32_t>::size).size(),
            LayerState::kMaxAppend);
}

TEST_F(RerankerTest, ScoresDoNotDependOnOtherTexts) {
  const auto model = CpuModel::Load(directory_).value();
  kernels::OpContext ctx;
  std::vector<float> alone;
  for (const std::vector<int32_t>& text : texts_)
    alone.push_back(model->Rerank(ctx, {&text, 1}).front());
  EXPECT_THAT(Scores(*model), ElementsAreArray(alone));
}

// As a device's backend loads it.
TEST_F(RerankerTest, NeedsNoLayersOfTheBase) {
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
      .layers = 1, .rank = 1, .context_tokens = 0, .sentence_tokens = 1, .question_tokens = 1};
  const auto tokens = [&](const SentenceInContext& sentence, const std::string& question) {
    return RerankerTokens(*model->tokenizer(), config, sentence, question);
  };
  const std::vector<int32_t> shortest = tokens({"", "a"}, "b");
  EXPECT_EQ(tokens({"The end.", "a b c"}, "b").size(), shortest.size());
  EXPECT_EQ(tokens({"", "a"}, "a b b b b").size(), shortest.size());
  EXPECT_EQ(tokens({"", ""}, "").size(), shortest.size());
}

}  // namespace
}  // namespace recollect::model
