#include "model/pointer.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/cpu/cpu_model.h"
#include "model/weights/safetensors.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using kernels::PointedToken;
using ::testing::IsEmpty;

// The golden case's: its weights are numbers of unit size, so that nothing is zero by chance.
class PointerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = SourceDir() + "/tests/golden/models/pointer";
    auto model = CpuModel::Load(folder);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    pointer_ = model_->pointer();
    ASSERT_NE(pointer_, nullptr);
    auto file = SafetensorsFile::Open(folder + "/model.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    run_ = *file->ReadFloats("pointer.run");
    overlap_ = *file->ReadFloats("pointer.overlap");
    rarity_ = *file->ReadFloats("pointer.rarity");
  }
  // What token `id`, j before the last one, adds to a score.
  float Adds(size_t j, size_t id, bool run) const {
    return rarity_[id] * (overlap_[j] + (run ? run_[j] : 0));
  }
  float ScoreOf(const std::vector<PointedToken>& pointed, int32_t token) const {
    for (const PointedToken& found : pointed) {
      if (found.token == token) return found.score;
    }
    ADD_FAILURE() << "nothing points to " << token;
    return 0;
  }

  std::unique_ptr<CpuModel> model_;
  const Pointer* pointer_ = nullptr;
  std::vector<float> run_, overlap_, rarity_;
};

TEST_F(PointerTest, FollowsWhatStandsBefore) {
  // Behind 9 8 3 4: of the chunk, 5 stands behind 8 3 4 and behind 3 4, 6 behind 4 alone.
  const std::vector<int32_t> line = {9, 8, 3, 4, 5, 3, 4, 5, 7, 4, 6};
  const PointerChunk chunk{.tokens = line, .rows = 7, .weight = 0.25f};
  const std::vector<int32_t> recent = {8, 3, 4};
  const auto pointed = pointer_->Point(recent, {&chunk, 1});
  ASSERT_EQ(pointed.size(), 2u);
  const float one = std::log(0.25f) + Adds(0, 4, true);
  const float two = one + Adds(1, 3, true);
  EXPECT_NEAR(ScoreOf(pointed, 6), one, 1e-5);
  EXPECT_NEAR(ScoreOf(pointed, 5), std::log(std::exp(two + Adds(2, 8, true)) + std::exp(two)),
              1e-5);
}

TEST_F(PointerTest, ATokenThatDiffersEndsTheRunAndNoMore) {
  const std::vector<int32_t> line = {8, 3, 4, 5};
  const PointerChunk chunk{.tokens = line, .rows = 1, .weight = 1};
  const std::vector<int32_t> recent = {8, 10, 4};
  EXPECT_NEAR(ScoreOf(pointer_->Point(recent, {&chunk, 1}), 5),
              Adds(0, 4, true) + Adds(2, 8, false), 1e-5);
}

TEST_F(PointerTest, ChunksAddUpByWeight) {
  const std::vector<int32_t> line = {4, 5};
  const PointerChunk chunks[] = {{.tokens = line, .rows = 2, .weight = 0.75f},
                                 {.tokens = line, .rows = 2, .weight = 0.25f}};
  const std::vector<int32_t> recent = {4};
  const auto pointed = pointer_->Point(recent, chunks);
  ASSERT_EQ(pointed.size(), 1u);
  EXPECT_NEAR(pointed[0].score, Adds(0, 4, true), 1e-5);
}

TEST_F(PointerTest, PointsNowhereWithoutALikeness) {
  const std::vector<int32_t> line = {3, 4, 5};
  const PointerChunk chunk{.tokens = line, .rows = 3, .weight = 1};
  EXPECT_THAT(pointer_->Point(std::vector<int32_t>{7}, {&chunk, 1}), IsEmpty());
  EXPECT_THAT(pointer_->Point({}, {&chunk, 1}), IsEmpty());
  EXPECT_THAT(pointer_->Point(std::vector<int32_t>{4}, {}), IsEmpty());
  // Nothing stands behind the last token, nor before a document's first.
  EXPECT_THAT(pointer_->Point(std::vector<int32_t>{5}, {&chunk, 1}), IsEmpty());
}

TEST_F(PointerTest, ChunksKeepWhatStandsBeforeThem) {
  const std::vector<int32_t> tokens = {3, 4, 5, 6, 7, 8, 9, 10, 11};
  EncodedChunk chunk{.landmark_key = {}, .states = {}, .tokens = {}, .rows = 2};
  model_->AddTokens(tokens, chunk);
  EXPECT_THAT(chunk.tokens, ::testing::ElementsAre(5, 6, 7, 8, 9, 10, 11));  // reach 5 and 2 rows
}

}  // namespace
}  // namespace recollect::model
