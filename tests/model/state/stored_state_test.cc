// A whole sequence's local state as bytes and back: what names its pattern, and what damage is.
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/state/local_state.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WholeStateTest : public ::testing::Test {
 protected:
  WholeStateTest() : state_(LocalState::Create(config_, config_.local, 3)) {
    const std::vector<float> rows(static_cast<size_t>(40 * config_.inner()), 0.5f);
    for (LayerState& layer : state_.layers) layer.Append(rows.data(), rows.data(), 40);
    bytes_ = state_.Serialize();
  }
  absl::Status Read(const LocalPatterns& pattern, int layers, std::string_view bytes) {
    return LocalState::Deserialize(config_, pattern, layers, bytes).status();
  }
  ModelConfig config_ = TinyConfig();
  LocalState state_;
  std::string bytes_;
};

TEST_F(WholeStateTest, ComesBack) {
  const auto state = LocalState::Deserialize(config_, config_.local, 3, bytes_);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->length(), 40);
  EXPECT_EQ(state->Serialize(), bytes_);
}

TEST_F(WholeStateTest, AnotherPatternIsRefusedWithBoth) {
  const absl::Status status = Read(config_.local.With(&LocalPattern::dilation, 8), 3, bytes_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("window 127, dilation 16"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("window 127, dilation 8"));
}

TEST_F(WholeStateTest, DamageIsDataLoss) {
  EXPECT_EQ(Read(config_.local, 2, bytes_).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Read(config_.local, 3, bytes_ + "x").code(), absl::StatusCode::kDataLoss);
  for (size_t size = 0; size < bytes_.size(); size += size < 64 ? 1 : 97) {
    EXPECT_EQ(Read(config_.local, 3, std::string_view(bytes_).substr(0, size)).code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
  // The length of the first layer: absurd values must not become allocations.
  for (const char byte : {'\x7f', '\xff'}) {
    std::string damaged = bytes_;
    for (size_t i = 40; i < 48; ++i) damaged[i] = byte;
    EXPECT_EQ(Read(config_.local, 3, damaged).code(), absl::StatusCode::kDataLoss);
  }
}

// Lists of patterns are part of what is stored, and equal lists are equal however they are written.
TEST(WholeStateOfListsTest, NamesItsPatterns) {
  const ModelConfig config = TinyRatPlusConfig();
  const LocalPattern sparse = *config.local.everywhere();
  LocalPattern dense = sparse;
  dense.dilation = 1;
  const LocalPatterns hybrid({{sparse}, {dense, sparse}, {sparse, sparse}});
  LocalState state = LocalState::Create(config, hybrid, 3);
  const std::vector<float> rows(static_cast<size_t>(40 * config.inner()), 0.5f);
  for (LayerState& layer : state.layers) layer.Append(rows.data(), rows.data(), 40);
  const std::string bytes = state.Serialize();
  const LocalPatterns same({{sparse}, {dense, sparse}, {sparse}});
  const auto copy = LocalState::Deserialize(config, same, 3, bytes);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->Serialize(), bytes);
  const absl::Status other = LocalState::Deserialize(config, sparse, 3, bytes).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(other.message()),
      AllOf(HasSubstr("heads [(window 0, dilation 1, initial 4, span unbounded), (window 0, "
                      "dilation 16"),
            HasSubstr("under (window 0, dilation 16, initial 4, span unbounded)")));
  for (size_t size = 0; size < bytes.size(); size += size < 256 ? 1 : 97) {
    EXPECT_EQ(LocalState::Deserialize(config, hybrid, 3, std::string_view(bytes).substr(0, size))
                  .status()
                  .code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
}

TEST(WholeStateOfListsTest, NamesItsContextAndItsBlocks) {
  const ModelConfig config = TinyRatPlusConfig();
  const LocalPatterns chosen = config.local.WithContext(1024).WithBlocks(config.top_k.With(3));
  LocalState state = LocalState::Create(config, chosen, 3);
  const std::vector<float> rows(static_cast<size_t>(40 * config.inner()), 0.5f);
  for (LayerState& layer : state.layers) layer.Append(rows.data(), rows.data(), 40);
  const std::string bytes = state.Serialize();
  const auto copy = LocalState::Deserialize(config, chosen, 3, bytes);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->Serialize(), bytes);
  EXPECT_EQ(copy->layers[0].block_cache()->length(), 40);
  for (const LocalPatterns& other :
       {config.local, chosen.WithContext(512), chosen.WithBlocks(config.top_k.With(4))}) {
    const absl::Status status = LocalState::Deserialize(config, other, 3, bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("span unbounded) for context 1024 with the best 3 blocks of 16 by quest"));
  }
  for (size_t size = 0; size < bytes.size(); size += size < 128 ? 1 : 97) {
    EXPECT_EQ(LocalState::Deserialize(config, chosen, 3, std::string_view(bytes).substr(0, size))
                  .status()
                  .code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
}

}  // namespace
}  // namespace recollect::model
