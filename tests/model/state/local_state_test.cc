#include "model/state/local_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/model_testing.h"

namespace recollect::model {
namespace {

constexpr int kHeads = 1;
constexpr int kHeadDim = 2;

std::vector<LocalPattern> Patterns() {
  std::vector<LocalPattern> patterns;
  for (const int64_t window : {0, 1, 5, 63, 127, 128}) {
    for (const int64_t dilation : {1, 2, 3, 16, 64, 128, -1}) {
      for (const int64_t initial : {0, 1, 15, 16, 70, 200}) {
        for (const int64_t extra : {0, 1, 17, 300, 1 << 20}) {
          patterns.push_back({window, dilation, initial, window + extra});
        }
      }
    }
  }
  // RAT+ as published: no end to the span, any dilation or none.
  for (const int64_t dilation : {1, 2, 3, 4, 8, 16, 64, 128, -1}) {
    for (const int64_t window : {0, 1, 7, 256}) {
      for (const int64_t initial : {0, 1, 4, 5, 17}) {
        patterns.push_back({window, dilation, initial, kUnboundedSpan});
      }
    }
  }
  return patterns;
}

std::string Name(const LocalPattern& pattern) { return LocalPatterns(pattern).Text(); }

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
  const auto parts = state.caches()[0].parts();
  const auto set = state.caches()[0].Ranges(position);
  for (size_t i = 0; i < parts.size(); ++i) {
    for (int64_t entry = set.ranges[i].begin; entry < set.ranges[i].end; ++entry) {
      const float key = parts[i].keys[entry * kHeadDim + 1];
      // No position is -1: an entry whose value is not its key's fails the comparison.
      const bool whole = parts[i].values[entry * kHeadDim] == -key;
      found.push_back(whole ? static_cast<int64_t>(key) : -1);
    }
  }
  return found;
}

// The set of the definition, ascending.
std::vector<int64_t> Expected(const LocalPattern& pattern, int64_t t) {
  std::vector<int64_t> positions;
  for (int64_t p = 0; p <= t; ++p) {
    if (Attends(pattern, t, p)) positions.push_back(p);
  }
  return positions;
}

// Ascending order also shows that nothing is counted twice.
TEST(LocalStateTest, RangesAreTheSetOfTheDefinition) {
  const int64_t cuts[] = {1, 64, 3, 64, 64, 17, 1, 1, 64, 5, 64, 64, 64, 64};
  const std::vector<LocalPattern> patterns = Patterns();
  // All positions of every fourth pattern, a fifth of the others' positions.
  for (size_t i = 0; i < patterns.size(); ++i) {
    const LocalPattern& pattern = patterns[i];
    LayerState state({pattern}, kHeads, kHeadDim);
    for (const int64_t rows : cuts) {
      const int64_t before = state.length();
      AppendPositions(state, rows);
      for (int64_t t = before; t < state.length(); t += i % 4 == 0 ? 1 : 5) {
        const std::vector<int64_t> expected = Expected(pattern, t);
        ASSERT_EQ(Attended(state, t), expected) << Name(pattern) << " at " << t;
        ASSERT_EQ(AttendedCount(pattern, t), std::ssize(expected)) << Name(pattern) << " at " << t;
      }
    }
  }
}

TEST(LocalStateTest, BytesDependOnTheSequenceAlone) {
  for (const LocalPattern& pattern : Patterns()) {
    std::vector<std::string> bytes;
    for (const int64_t step : {1, 7, 64}) {
      LayerState state({pattern}, kHeads, kHeadDim);
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
  const std::vector<LocalPattern> patterns = Patterns();
  // Every seventh, which meets every value of each field, and of them every fifth position: the
  // first test looks at all.
  for (size_t i = 0; i < patterns.size(); i += 7) {
    const LocalPattern& pattern = patterns[i];
    for (const int64_t length : {0, 1, 16, 100, 333}) {
      LayerState state({pattern}, kHeads, kHeadDim);
      while (state.length() < length)
        AppendPositions(state, std::min<int64_t>(10, length - state.length()));
      std::string bytes;
      state.Serialize(bytes);
      LayerState copy({pattern}, kHeads, kHeadDim);
      std::string_view in = bytes;
      ASSERT_TRUE(copy.Deserialize(in).ok()) << Name(pattern);
      EXPECT_TRUE(in.empty());
      EXPECT_EQ(copy.key_recurrence()[0], state.key_recurrence()[0]);
      for (int step = 0; step < 5; ++step) {
        AppendPositions(copy, 61);
        AppendPositions(state, 61);
        for (int64_t t = copy.length() - 61; t < copy.length(); t += 5) {
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
  LayerState state({pattern}, kHeads, kHeadDim);
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

// Numbers that are bf16 already take half the room, and are the same bytes when they are stored.
TEST(LocalStateTest, ACacheInBf16KeepsTheSameNumbers) {
  for (const LocalPattern& pattern : Patterns()) {
    LayerState wide({pattern}, kHeads, kHeadDim);
    LayerState halves({pattern}, kHeads, kHeadDim, {.kept = DType::kBf16});
    for (int64_t length = 0; length < 192; length += 64) {
      AppendPositions(wide, 64);
      AppendPositions(halves, 64);
      std::string expected, bytes;
      wide.Serialize(expected);
      halves.Serialize(bytes);
      ASSERT_EQ(bytes, expected) << Name(pattern);
      LayerState again({pattern}, kHeads, kHeadDim, {.kept = DType::kBf16});
      std::string_view in = bytes;
      ASSERT_TRUE(again.Deserialize(in).ok());
      bytes.clear();
      again.Serialize(bytes);
      ASSERT_EQ(bytes, expected) << Name(pattern);
      const int64_t caches = halves.bytes() - 2 * kHeadDim * kHeads * int64_t{sizeof(float)};
      EXPECT_LE(caches, (wide.bytes() - 2 * kHeadDim * kHeads * int64_t{sizeof(float)}) / 2);
    }
  }
}

// RAT+ as published: what is kept is the initial positions, the window and every D-th position.
TEST(LocalStateTest, WithoutASpanItGrowsByOneEntryEveryDilation) {
  const LocalPattern pattern{.window = 5, .dilation = 16, .initial = 4, .span = kUnboundedSpan};
  LayerState state({pattern}, kHeads, kHeadDim);
  while (state.length() < 4096) AppendPositions(state, 64);
  std::string bytes;
  state.Serialize(bytes);
  // Positions 4091 .. 4095 are the window of the next, block ends up to 4095 included: 4095 may
  // stand in both.
  const int64_t entries = 4 + 5 + 4096 / 16;
  EXPECT_EQ(bytes.size(), sizeof(int64_t) + (2 + 2 * entries) * kHeadDim * sizeof(float));
}

// Positions of the entries that a built state keeps for the next position: of the floats that
// follow length and recurrence only keys are positive.
std::set<int64_t> Kept(const LayerState& state) {
  std::string bytes;
  state.Serialize(bytes);
  const size_t head = sizeof(int64_t) + 2 * kHeadDim * sizeof(float);
  std::vector<float> entries((bytes.size() - head) / sizeof(float));
  std::memcpy(entries.data(), bytes.data() + head, entries.size() * sizeof(float));
  std::set<int64_t> positions;
  for (const float entry : entries) {
    if (!std::signbit(entry)) positions.insert(static_cast<int64_t>(entry));
  }
  return positions;
}

// A built cache of dilation D without its odd block ends is the cache that 2 D builds.
TEST(LocalStateTest, ThinningADilationEqualsBuildingWithTheLarger) {
  for (const LocalPattern& pattern : Patterns()) {
    if (pattern.dilation == kNoDilation) continue;
    for (const int64_t length : {1, 15, 16, 64, 100, 333}) {
      LocalPattern larger = pattern;
      larger.dilation *= 2;
      LayerState fine({pattern}, kHeads, kHeadDim), coarse({larger}, kHeads, kHeadDim);
      for (LayerState* state : {&fine, &coarse}) {
        while (state->length() < length) {
          AppendPositions(*state, std::min<int64_t>(63, length - state->length()));
        }
      }
      std::set<int64_t> thinned = Kept(fine);
      std::erase_if(thinned, [&](int64_t p) {
        const bool near = p >= length - pattern.window || p < pattern.initial;
        return !near && (p + 1) % larger.dilation != 0;
      });
      ASSERT_EQ(thinned, Kept(coarse)) << Name(pattern) << " at " << length;
    }
  }
}

// The window leads from the dilated set to the dense one, a position at a time at most.
TEST(LocalStateTest, WindowsAreNestedFromDilatedToDense) {
  constexpr int64_t kLast = 150;
  for (const int64_t dilation : {1, 2, 3, 16, 64, 128, -1}) {
    for (const int64_t initial : {0, 5}) {
      std::vector<int64_t> smaller;
      for (int64_t window = 0; window <= kLast + 1; ++window) {
        const LocalPattern pattern{window, dilation, initial, kUnboundedSpan};
        LayerState state({pattern}, kHeads, kHeadDim);
        while (state.length() <= kLast) AppendPositions(state, 1);
        const std::vector<int64_t> attended = Attended(state, kLast);
        EXPECT_TRUE(std::includes(attended.begin(), attended.end(), smaller.begin(), smaller.end()))
            << Name(pattern);
        EXPECT_LE(attended.size(), window == 0 ? kLast + 1 : smaller.size() + 1) << Name(pattern);
        EXPECT_TRUE(window < kLast || std::ssize(attended) == kLast + 1) << Name(pattern);
        smaller = attended;
      }
    }
  }
}

TEST(LocalStateTest, NeighbouringHeadsOfOnePatternShareACache) {
  const LocalPattern dense{0, 1, 0, kUnboundedSpan}, sparse{2, 4, 1, kUnboundedSpan};
  const HeadPatterns patterns = {dense, dense, sparse, dense};
  LayerState state(patterns, 4, kHeadDim);
  ASSERT_EQ(state.caches().size(), 3u);
  EXPECT_EQ(state.caches()[1].first_head(), 2);
  EXPECT_EQ(state.caches()[1].heads(), 1);
  // Each head's key is its own: position * 10 + head.
  std::vector<float> keys;
  for (int position = 0; position < 40; ++position) {
    for (int i = 0; i < 4 * kHeadDim; ++i) {
      keys.push_back(static_cast<float>(position * 10 + i / kHeadDim));
    }
  }
  state.Append(keys.data(), keys.data(), 40);
  const auto check = [&](const LayerState& checked) {
    for (const LocalCache& cache : checked.caches()) {
      std::vector<int64_t> found;
      const auto set = cache.Ranges(39);
      for (size_t i = 0; i < set.ranges.size(); ++i) {
        for (int64_t e = set.ranges[i].begin; e < set.ranges[i].end; ++e) {
          const float key = cache.parts()[i].keys[e * cache.heads() * kHeadDim];
          EXPECT_EQ(static_cast<int>(key) % 10, cache.first_head());
          found.push_back(static_cast<int64_t>(key) / 10);
        }
      }
      EXPECT_EQ(found, Expected(patterns[static_cast<size_t>(cache.first_head())], 39));
    }
  };
  check(state);
  std::string bytes, again;
  state.Serialize(bytes);
  LayerState copy(patterns, 4, kHeadDim);
  std::string_view in = bytes;
  ASSERT_TRUE(copy.Deserialize(in).ok());
  copy.Serialize(again);
  EXPECT_EQ(again, bytes);
}

// What one more position adds to an empty state, whose vectors then hold that and no more.
int64_t FirstPositionFloats(const ModelConfig& config, const LocalPatterns& patterns) {
  LocalState state = LocalState::Create(config, patterns, config.layers());
  const int64_t before = state.bytes();
  const std::vector<float> row(static_cast<size_t>(config.inner()));
  for (LayerState& layer : state.layers) {
    if (ResidualCache* residual = layer.residual_cache()) {
      residual->Append(row.data(), row.data(), row.data(), 1, config.kv_width());
    } else {
      layer.Append(row.data(), row.data(), 1);
    }
  }
  return (state.bytes() - before) / static_cast<int64_t>(sizeof(float));
}

TEST(LocalStateTest, APositionAddsAtMostWhatTheConfigSays) {
  for (const ModelConfig& config : {TinyConfig(), TinyDrtPaperConfig(), TinyRatSwaConfig()}) {
    EXPECT_LE(FirstPositionFloats(config, config.local), config.position_floats())
        << config.architecture;
  }
  // The most there can be: window and dilated part; keys and the bounds of their block; placed and
  // raw keys (layers 0 and 2) beside attention over everything (layer 1).
  const ModelConfig ratplus = TinyRatPlusConfig();
  const LocalPattern dense{.window = 8, .dilation = 1, .initial = 0, .span = kUnboundedSpan};
  EXPECT_EQ(FirstPositionFloats(ratplus, dense), ratplus.position_floats());
  EXPECT_EQ(FirstPositionFloats(ratplus, ratplus.local.WithBlocks({.count = 1, .block = 1})),
            ratplus.position_floats());
  const ModelConfig rattention = TinyRattentionConfig();
  EXPECT_EQ(FirstPositionFloats(rattention, rattention.local), rattention.position_floats());
}

TEST(LocalStateTest, AppendTakesStridedRows) {
  const LocalPattern pattern{.window = 8, .dilation = 1, .initial = 0, .span = 8};
  LayerState state({pattern}, kHeads, kHeadDim);
  const float rows[] = {0, 0, -0.0f, -0.0f, 9, 1, 1, -1, -1, 9};
  state.Append(rows, rows + 2, 2, 5);
  EXPECT_EQ(Attended(state, 1), (std::vector<int64_t>{0, 1}));
}

LayerState::Options WithoutRecurrence() {
  LayerState::Options options;
  options.recurrence = false;
  return options;
}

// Every pattern: where a state says that it can forget, it goes on as if it had never run what it
// forgot; and it can wherever nothing that is needed has been dropped.
TEST(LocalStateTest, RewoundStateContinuesAsOneThatNeverWentFurther) {
  for (const LocalPattern& pattern : Patterns()) {
    LayerState state({pattern}, kHeads, kHeadDim, WithoutRecurrence());
    const auto append = [](LayerState& to, int64_t rows) {
      for (int64_t row = 0; row < rows; ++row) {
        const auto position = static_cast<float>(to.length());
        const float keys[kHeadDim] = {position, position},
                    values[kHeadDim] = {-position, -position};
        to.Append(keys, values, 1);
      }
    };
    append(state, 300);
    for (const int64_t length : {299, 250, 100, 1, 0}) {
      // Everything is kept: in the window, or as positions in a step of one.
      if (pattern.window >= 300 ||
          (pattern.dilation == 1 && pattern.window == 0 && pattern.span == kUnboundedSpan)) {
        EXPECT_TRUE(state.CanRewind(length)) << Name(pattern) << " to " << length;
      }
      if (!state.CanRewind(length)) continue;
      state.Rewind(length);
      ASSERT_EQ(state.length(), length);
      append(state, 40);
      ASSERT_EQ(Attended(state, length + 39), Expected(pattern, length + 39))
          << Name(pattern) << " from " << length;
    }
  }
}

TEST(LocalStateTest, RecurrenceAndDroppedEntriesCannotBeRewound) {
  LayerState recurrent({{.window = 8, .dilation = -1, .initial = 0, .span = 8}}, kHeads, kHeadDim);
  AppendPositions(recurrent, 4);
  EXPECT_FALSE(recurrent.CanRewind(3));

  LayerState window({{.window = 8, .dilation = -1, .initial = 0, .span = 8}}, kHeads, kHeadDim,
                    WithoutRecurrence());
  const std::vector<float> rows(100 * kHeadDim);
  window.Append(rows.data(), rows.data(), 50);
  window.Append(rows.data(), rows.data(), 50);  // drops what only earlier positions reach
  EXPECT_FALSE(window.CanRewind(20));
  EXPECT_FALSE(window.CanRewind(101));
  EXPECT_TRUE(window.CanRewind(100));
}

}  // namespace
}  // namespace recollect::model
