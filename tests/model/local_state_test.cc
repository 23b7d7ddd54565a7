#include "model/local_state.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::HasSubstr;

constexpr int kHeads = 1;
constexpr int kHeadDim = 2;

std::vector<LocalPattern> Patterns() {
  std::vector<LocalPattern> patterns;
  for (const int64_t window : {0, 1, 5, 63, 127, 128}) {
    for (const int64_t dilation : {1, 2, 16, 64}) {
      for (const int64_t initial : {0, 1, 15, 16, 70, 200}) {
        for (const int64_t extra : {0, 1, 17, 300, 1 << 20}) {
          patterns.push_back({window, dilation, initial, window + extra});
        }
      }
    }
  }
  return patterns;
}

std::string Name(const LocalPattern& p) {
  return absl::StrCat("W", p.window, " D", p.dilation, " I", p.initial, " C", p.span);
}

// Appends positions first .. first + rows - 1, each with its own number as key and its negative as
// value.
void AppendPositions(LayerState& state, int64_t rows) {
  std::vector<float> keys, values;
  for (int64_t position = state.length(); position < state.length() + rows; ++position) {
    for (int j = 0; j < kHeadDim; ++j) {
      keys.push_back(static_cast<float>(position));
      values.push_back(-static_cast<float>(position));
    }
  }
  state.Append(keys.data(), values.data(), rows);
  for (int j = 0; j < kHeadDim; ++j) state.key_recurrence()[j] = static_cast<float>(state.length());
}

std::vector<int64_t> Attended(const LayerState& state, int64_t position) {
  std::vector<int64_t> found;
  const auto parts = state.parts();
  const auto set = state.Ranges(position);
  for (size_t i = 0; i < parts.size(); ++i) {
    for (int64_t entry = set.ranges[i].begin; entry < set.ranges[i].end; ++entry) {
      const float key = parts[i].keys[entry * kHeadDim + 1];
      EXPECT_EQ(parts[i].values[entry * kHeadDim], -key);
      found.push_back(static_cast<int64_t>(key));
    }
  }
  return found;
}

// The set of docs/model-format.md, ascending.
std::vector<int64_t> Expected(const LocalPattern& pattern, int64_t t) {
  std::vector<int64_t> positions;
  for (int64_t p = 0; p <= t; ++p) {
    const bool window = p >= t - pattern.window;
    const bool dilated =
        p >= t - pattern.span && p < t - pattern.window && (p + 1) % pattern.dilation == 0;
    if (window || dilated || p < pattern.initial) positions.push_back(p);
  }
  return positions;
}

// Ascending order also shows that nothing is counted twice.
TEST(LocalStateTest, RangesAreTheSetOfTheDefinition) {
  const int64_t cuts[] = {1, 64, 3, 64, 64, 17, 1, 1, 64, 5, 64, 64, 64, 64};
  for (const LocalPattern& pattern : Patterns()) {
    LayerState state(pattern, kHeads, kHeadDim);
    for (const int64_t rows : cuts) {
      const int64_t before = state.length();
      AppendPositions(state, rows);
      for (int64_t t = before; t < state.length(); ++t) {
        ASSERT_EQ(Attended(state, t), Expected(pattern, t)) << Name(pattern) << " at " << t;
      }
    }
  }
}

TEST(LocalStateTest, BytesDependOnTheSequenceAlone) {
  for (const LocalPattern& pattern : Patterns()) {
    std::vector<std::string> bytes;
    for (const int64_t step : {1, 7, 64}) {
      LayerState state(pattern, kHeads, kHeadDim);
      while (state.length() < 333)
        AppendPositions(state, std::min<int64_t>(step, 333 - state.length()));
      bytes.emplace_back();
      state.Serialize(bytes.back());
    }
    EXPECT_EQ(bytes[0], bytes[1]) << Name(pattern);
    EXPECT_EQ(bytes[0], bytes[2]) << Name(pattern);
  }
}

TEST(LocalStateTest, ReadBackItGoesOnAsBefore) {
  for (const LocalPattern& pattern : Patterns()) {
    for (const int64_t length : {0, 1, 16, 100, 333}) {
      LayerState state(pattern, kHeads, kHeadDim);
      while (state.length() < length)
        AppendPositions(state, std::min<int64_t>(10, length - state.length()));
      std::string bytes;
      state.Serialize(bytes);
      LayerState copy(pattern, kHeads, kHeadDim);
      std::string_view in = bytes;
      ASSERT_TRUE(copy.Deserialize(in).ok()) << Name(pattern);
      EXPECT_TRUE(in.empty());
      EXPECT_EQ(copy.key_recurrence()[0], state.key_recurrence()[0]);
      for (int step = 0; step < 5; ++step) {
        AppendPositions(copy, 61);
        AppendPositions(state, 61);
        for (int64_t t = copy.length() - 61; t < copy.length(); ++t) {
          ASSERT_EQ(Attended(copy, t), Expected(pattern, t)) << Name(pattern) << " at " << t;
        }
      }
      std::string again, expected;
      copy.Serialize(again);
      state.Serialize(expected);
      EXPECT_EQ(again, expected) << Name(pattern);
    }
  }
}

TEST(LocalStateTest, SizeIsBounded) {
  const LocalPattern pattern{.window = 128, .dilation = 16, .initial = 4, .span = 1024};
  LayerState state(pattern, kHeads, kHeadDim);
  int64_t largest = 0;
  for (int i = 0; i < 1000; ++i) {
    AppendPositions(state, 64);
    if (i == 100) largest = state.bytes();
  }
  EXPECT_EQ(state.bytes(), largest);
  std::string bytes;
  state.Serialize(bytes);
  const int64_t entries = 4 + 128 + 1024 / 16;
  EXPECT_EQ(bytes.size(), sizeof(int64_t) + (2 + 2 * entries) * kHeadDim * sizeof(float));
}

TEST(LocalStateTest, AppendTakesStridedRows) {
  const LocalPattern pattern{.window = 8, .dilation = 1, .initial = 0, .span = 8};
  LayerState state(pattern, kHeads, kHeadDim);
  const float rows[] = {0, 0, -0.0f, -0.0f, 9, 1, 1, -1, -1, 9};
  state.Append(rows, rows + 2, 2, 5);
  EXPECT_EQ(Attended(state, 1), (std::vector<int64_t>{0, 1}));
}

class WholeStateTest : public ::testing::Test {
 protected:
  WholeStateTest() : state_(LocalState::Create(config_, config_.local, 3)) {
    const std::vector<float> rows(static_cast<size_t>(40 * config_.inner()), 0.5f);
    for (LayerState& layer : state_.layers) layer.Append(rows.data(), rows.data(), 40);
    bytes_ = state_.Serialize();
  }
  absl::Status Read(const LocalPattern& pattern, int layers, std::string_view bytes) {
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
  LocalPattern other = config_.local;
  other.dilation = 8;
  const absl::Status status = Read(other, 3, bytes_);
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

}  // namespace
}  // namespace recollect::model
