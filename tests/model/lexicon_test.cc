#include "model/lexicon.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/cpu/cpu_model.h"
#include "model/weights/safetensors.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int64_t kWidth = 6;
constexpr int kReach = 4;

// Of this process: the file that a test has mapped must not be written by another.
std::string Directory(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/", name);
}

ModelConfig Config() {
  ModelConfig config = TinyConfig();
  config.lexicon = {.d = kWidth, .reach = kReach};
  config.successors = true;
  return config;
}

class LexiconTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteTinyModel(directory_, Config(), 1);
    model_ = CpuModel::Load(directory_).value();
    const auto file = SafetensorsFile::Open(directory_ + "/model.safetensors");
    rows_ = *file->ReadFloats("lexicon.weight");
    recency_ = *file->ReadFloats("groups.1.recency");
  }
  float Row(int32_t token, int64_t i) const { return rows_[token * kWidth + i]; }

  std::vector<float> Query(const std::vector<int32_t>& recent) const {
    std::vector<float> u(kWidth, NAN);  // whatever was there does not count
    model_->lexicon()->Query(1, recent, u);
    return u;
  }

  const std::string directory_ = Directory("lexicon");
  std::unique_ptr<CpuModel> model_;
  std::vector<float> rows_, recency_;
};

TEST_F(LexiconTest, AKeyIsTheNormedSumOfItsTokens) {
  EXPECT_EQ(model_->lexicon()->width(), kWidth);
  EXPECT_EQ(model_->config().key_width(), model_->config().d_r + kWidth);
  for (const std::vector<int32_t>& tokens :
       {std::vector<int32_t>{3}, {319, 5, 5, 200}, std::vector<int32_t>(63, 7)}) {
    std::vector<double> sum(kWidth);
    double squares = 0;
    for (int64_t i = 0; i < kWidth; ++i) {
      for (const int32_t token : tokens) sum[i] += Row(token, i);
      squares += sum[i] * sum[i];
    }
    const std::vector<Bf16> key = model_->lexicon()->Key(tokens);
    ASSERT_EQ(key.size(), sum.size());
    for (int64_t i = 0; i < kWidth; ++i) {
      const double expected = sum[i] / std::sqrt(squares / kWidth + Config().norm_eps);
      EXPECT_NEAR(key[i].ToFloat(), expected, 0x1p-8 * std::abs(expected) + 1e-6);
    }
  }
}

TEST_F(LexiconTest, AKeyStandsBehindTheEncoders) {
  EncodedChunk chunk{.landmark_key = {Bf16::FromFloat(2)}, .states = {}, .tokens = {}, .rows = 2};
  model_->AddTokens(std::vector<int32_t>{9, 8}, chunk);
  std::vector<Bf16> expected = model_->lexicon()->Key(std::vector<int32_t>{9, 8});
  expected.insert(expected.begin(), Bf16::FromFloat(2));
  EXPECT_THAT(chunk.landmark_key, ElementsAreArray(expected));
}

TEST_F(LexiconTest, AQueryWeighsTokensByHowFarTheyAreBack) {
  for (const std::vector<int32_t>& recent : {std::vector<int32_t>{11}, {4, 5, 6}, {9, 8, 7, 7}}) {
    std::vector<float> expected(kWidth);
    for (size_t back = 0; back < recent.size(); ++back) {  // the last token first, in fp32
      for (int64_t i = 0; i < kWidth; ++i) {
        expected[i] += recency_[back] * Row(recent[recent.size() - 1 - back], i);
      }
    }
    EXPECT_EQ(Query(recent), expected);
  }
  EXPECT_THAT(Query({}), Each(0.0f));
}

TEST_F(LexiconTest, AQueryReachesNoFartherThanItsRecency) {
  EXPECT_EQ(model_->lexicon()->reach(), kReach);
  EXPECT_EQ(Query({30, 31, 5, 6, 7, 8}), Query({5, 6, 7, 8}));
  EXPECT_NE(Query({6, 7, 8}), Query({5, 6, 7, 8}));
}

TEST_F(LexiconTest, AModelThatADeviceRunsHasTheSame) {
  const auto other = Model::Load(directory_).value();
  const std::vector<int32_t> tokens = {40, 3, 77};
  EXPECT_EQ(other->lexicon()->Key(tokens), model_->lexicon()->Key(tokens));
  EXPECT_THAT(other->successor_biases(), ElementsAreArray(model_->successor_biases()));
  EXPECT_EQ(other->weight_bytes(), std::ssize(rows_) * 4 + 2 * kReach * 4);
}

TEST_F(LexiconTest, AModelWithoutHasNone) {
  ModelConfig config = Config();
  config.lexicon = {};
  config.successors = false;
  WriteTinyModel(Directory("without"), config, 1);
  const auto without = CpuModel::Load(Directory("without")).value();
  EXPECT_EQ(without->lexicon(), nullptr);
  EXPECT_TRUE(without->successor_biases().empty());
  EXPECT_EQ(without->config().key_width(), config.d_r);
  EncodedChunk chunk{.landmark_key = {Bf16::FromFloat(2)}, .states = {}, .tokens = {}, .rows = 1};
  without->AddTokens(std::vector<int32_t>{9}, chunk);
  EXPECT_EQ(chunk.landmark_key.size(), 1u);
}

// A bias above 0 would lift chunks whose predecessors were never among the best.
TEST_F(LexiconTest, ABiasAboveZeroIsRefused) {
  std::map<std::string, FloatTensor> tensors;
  {
    const auto file = SafetensorsFile::Open(directory_ + "/model.safetensors");
    for (const auto& [name, info] : file->tensors()) {
      tensors[name] = {info.shape, *file->ReadFloats(name)};
    }
  }
  tensors["groups.1.successor_bias"].values = {0.5f};
  WriteSafetensors(directory_ + "/model.safetensors", tensors);
  for (const absl::Status& status :
       {Model::Load(directory_).status(), CpuModel::Load(directory_).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("groups.1.successor_bias is 0.5, expected at most 0"));
  }
  tensors["groups.1.successor_bias"].values = {0.0f};
  WriteSafetensors(directory_ + "/model.safetensors", tensors);
  EXPECT_TRUE(Model::Load(directory_).ok());
  EXPECT_TRUE(CpuModel::Load(directory_).ok());
}

}  // namespace
}  // namespace recollect::model
