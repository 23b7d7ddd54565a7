#include "kernels/landmark_topk/landmark_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/landmark_topk/landmark_topk_cases.h"

namespace recollect::kernels {
namespace {

using landmark_cases::Best;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr SketchShape kShapes[] = {{1, 0}, {24, 0}, {100, 100}, {163, 160}, {640, 256}};

// Keys as a model makes them: the dense numbers in 30 directions beside a mean, and little outside.
std::vector<float> ModelKeys(const SketchShape& shape, int64_t count) {
  constexpr int64_t kRank = 30;
  const std::vector<float> directions = Normals(kRank * shape.dense, 11);
  const std::vector<float> along = Normals(count * kRank, 12), mean = Normals(shape.width, 13);
  std::vector<float> keys = Normals(count * shape.width, 14);
  for (int64_t k = 0; k < count; ++k) {
    float* key = keys.data() + k * shape.width;
    for (int64_t i = 0; i < shape.width; ++i) {
      if (i < shape.dense) {
        key[i] *= 0.002f;
        for (int64_t r = 0; r < kRank; ++r) {
          key[i] += 0.1f * along[k * kRank + r] * directions[r * shape.dense + i];
        }
      }
      key[i] += 2 * mean[i];
    }
  }
  return keys;
}

struct Case {
  std::string name;
  std::function<void(std::vector<float>&)> change;  // of ModelKeys
};

std::vector<Case> Cases() {
  const auto scale = [](float by) {
    return [by](std::vector<float>& keys) {
      for (float& number : keys) number *= by;
    };
  };
  const auto every = [](size_t stride, float value) {
    return [stride, value](std::vector<float>& keys) {
      for (size_t i = stride / 2; i < keys.size(); i += stride) keys[i] = value;
    };
  };
  return {
      {"as a model makes them", [](std::vector<float>&) {}},
      {"zeros", scale(0)},
      {"all the same", [](std::vector<float>& keys) { std::fill(keys.begin(), keys.end(), 0.7f); }},
      {"two of each",
       [](std::vector<float>& keys) {
         const size_t half = keys.size() / 2;
         std::copy_n(keys.begin(), half, keys.begin() + static_cast<int64_t>(keys.size() - half));
       }},
      {"tiny", scale(1e-25f)},
      {"with squares that vanish", scale(1e-38f)},
      {"huge", scale(1e15f)},
      {"with squares that overflow", scale(1e25f)},
      {"of sums that overflow", scale(1e37f)},
      {"a large number here and there", every(1999, 1e6f)},
      {"a huge number here and there", every(1999, 1e30f)},
      {"the largest number here and there", every(1999, 3e38f)},
      {"infinities here and there", every(1999, -kInf)},
      {"NaN here and there", every(1999, std::nanf(""))},
      {"NaN everywhere", every(1, std::nanf(""))},
  };
}

struct Keys {
  Keys(const SketchShape& shape, const std::vector<float>& numbers) {
    for (const float number : numbers) keys.push_back(Bf16::FromFloat(number));
    const auto count = static_cast<int64_t>(keys.size()) / shape.width;
    sketch = std::make_unique<LandmarkSketch>(shape, keys.data(), count);
    // In two parts, as threads do it.
    OpContext ctx;
    sketch->Encode(ctx, keys.data(), sketch->blocks() / 2, sketch->blocks());
    sketch->Encode(ctx, keys.data(), 0, sketch->blocks() / 2);
  }
  void Bounds(OpContext& ctx, const SketchQuery& query, int64_t first, int64_t blocks,
              float* bounds) const {
    std::vector<int32_t> sums(static_cast<size_t>(blocks * kSketchBlock));
    const SketchSums of{query.coarse.data(), sums.data()};
    sketch->Sum(ctx, {&of, 1}, first, blocks);
    sketch->Bounds(ctx, query, sums.data(), first, blocks, bounds);
  }
  std::vector<Bf16> keys;
  std::unique_ptr<LandmarkSketch> sketch;
};

std::vector<std::vector<float>> Queries(const SketchShape& shape) {
  std::vector<std::vector<float>> queries;
  for (const float size : {1.0f, 0.0f, 1e-30f, 1e12f, 1e25f}) {
    queries.push_back(Normals(shape.width, 21, 1));
    for (float& number : queries.back()) number *= size;
  }
  for (const float strange : {kInf, std::nanf("")}) {
    queries.push_back(Normals(shape.width, 22));
    queries.back()[shape.width / 2] = strange;
  }
  // Of one number only, on each side of what directions replace.
  for (const int64_t at : {int64_t{0}, shape.width - 1}) {
    queries.emplace_back(shape.width, 0.0f)[at] = 3;
  }
  return queries;
}

TEST(LandmarkSketchTest, NoScoreIsAboveItsBound) {
  for (const SketchShape& shape : kShapes) {
    for (const Case& change : Cases()) {
      for (const int64_t count : {1, 17, 300}) {
        std::vector<float> numbers = ModelKeys(shape, count);
        change.change(numbers);
        const Keys all(shape, numbers);
        for (const std::vector<float>& query : Queries(shape)) {
          for (const Isa isa : RunnableIsas()) {
            OpContext ctx(isa);
            const SketchQuery prepared = all.sketch->Prepare(ctx, query);
            Guarded bounds(all.sketch->blocks() * kSketchBlock);
            all.Bounds(ctx, prepared, 0, all.sketch->blocks(), bounds.data());
            std::vector<float> scores(count);
            LandmarkScores(ctx, query.data(), shape.width, all.keys.data(), count, scores.data());
            for (int64_t k = 0; k < count; ++k) {
              if (!std::isfinite(scores[k])) continue;
              ASSERT_FALSE(bounds[k] < scores[k])
                  << change.name << ", " << IsaName(isa) << ", width " << shape.width << ", key "
                  << k << " of " << count << ": " << bounds[k] << " < " << scores[k];
            }
          }
        }
      }
    }
  }
}

TEST(LandmarkSketchTest, ASearchFindsTheSameWithAndWithout) {
  for (const SketchShape& shape : kShapes) {
    for (const Case& change : Cases()) {
      for (const int64_t count : {5, 500}) {
        std::vector<float> numbers = ModelKeys(shape, count);
        change.change(numbers);
        const Keys all(shape, numbers);
        for (const std::vector<float>& query : Queries(shape)) {
          for (const Isa isa : RunnableIsas()) {
            OpContext ctx(isa);
            for (const int n : {1, 30}) {
              SCOPED_TRACE(absl::StrCat(change.name, ", ", IsaName(isa), ", width ", shape.width,
                                        ", ", n, " of ", count));
              const KeySegment plain{all.keys.data(), count};
              const KeySegment sketched{all.keys.data(), count, all.sketch.get(), 0};
              const Best expected = LandmarkTopK(ctx, query, {&plain, 1}, n);
              ASSERT_TRUE(SameBits({LandmarkTopK(ctx, query, {&sketched, 1}, n)}, {expected}));
            }
          }
        }
      }
    }
  }
}

// Whatever the keys are that it grows by, and wherever the last block ends before.
TEST(LandmarkSketchTest, ASketchThatGrewFindsTheSame) {
  for (const SketchShape& shape : kShapes) {
    for (const Case& change : Cases()) {
      constexpr int64_t kCount = 300;
      std::vector<float> numbers = ModelKeys(shape, kCount);
      std::vector<float> later(numbers.begin() + 100 * shape.width, numbers.end());
      change.change(later);
      std::copy(later.begin(), later.end(), numbers.begin() + 100 * shape.width);
      Keys all(shape, {numbers.begin(), numbers.begin() + 100 * shape.width});
      all.keys.clear();
      for (const float number : numbers) all.keys.push_back(Bf16::FromFloat(number));
      OpContext growing;
      for (const int64_t count : {100, 100, 101, 112, 128, 129, 300}) {
        all.sketch->Grow(growing, all.keys.data(), count);
        ASSERT_EQ(all.sketch->count(), count);
        const KeySegment plain{all.keys.data(), count};
        const KeySegment sketched{all.keys.data(), count, all.sketch.get(), 0};
        for (const std::vector<float>& query : Queries(shape)) {
          OpContext ctx;
          SCOPED_TRACE(absl::StrCat(change.name, ", width ", shape.width, ", ", count));
          ASSERT_TRUE(SameBits({LandmarkTopK(ctx, query, {&sketched, 1}, 8)},
                               {LandmarkTopK(ctx, query, {&plain, 1}, 8)}));
        }
      }
    }
  }
}

// As a search over many documents by many threads: parts that begin and end anywhere, some keys of
// them without a sketch, each part with what the others have found.
TEST(LandmarkSketchTest, PartsOfASearchFindTheSame) {
  const SketchShape shape{163, 160};
  constexpr int64_t kCount = 5003;
  std::vector<float> numbers = ModelKeys(shape, kCount);
  std::copy_n(numbers.begin(), 2000 * shape.width, numbers.begin() + 3000 * shape.width);  // ties
  const Keys all(shape, numbers);
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (uint32_t seed = 0; seed < 3; ++seed) {
      const std::vector<float> query = Normals(shape.width, 30 + seed);
      const KeySegment whole{all.keys.data(), kCount};
      for (const int n : {0, 1, 8, 300, 6000}) {
        const Best expected = LandmarkTopK(ctx, query, {&whole, 1}, n);
        for (const int64_t cut : {7, 1000, 2501}) {
          SCOPED_TRACE(absl::StrCat(IsaName(isa), ", ", n, " best, cuts of ", cut));
          SearchFloor floor;
          std::vector<Best> parts;
          for (int64_t first = 0; first < kCount; first += cut) {
            // Two segments a part; every third part's second one has no sketch.
            const int64_t count = std::min(cut, kCount - first), half = count / 2;
            KeySegment segments[] = {
                {all.keys.data() + first * shape.width, half, all.sketch.get(), first},
                {all.keys.data() + (first + half) * shape.width, count - half, all.sketch.get(),
                 first + half}};
            if (first / cut % 3 == 0) segments[1].sketch = nullptr;
            parts.push_back(LandmarkTopK(ctx, query, segments, n, &floor));
            for (ScoredCandidate& found : parts.back()) found.candidate += first;
          }
          ASSERT_TRUE(SameBits({MergeTopK(parts, n)}, {expected}));
        }
      }
    }
  }
}

TEST(LandmarkSketchTest, BoundsRuleOutMostKeys) {
  const SketchShape shape{640, 256};
  constexpr int64_t kCount = 4096;
  const Keys all(shape, ModelKeys(shape, kCount));
  OpContext ctx;
  std::vector<float> bounds(kCount), scores(kCount);
  for (uint32_t seed = 0; seed < 4; ++seed) {
    // The encoder's numbers count more than the others, as they do in queries of the shipped model.
    std::vector<float> query = Normals(shape.width, seed);
    for (int64_t i = 0; i < shape.dense; ++i) query[i] *= 4;
    all.Bounds(ctx, all.sketch->Prepare(ctx, query), 0, all.sketch->blocks(), bounds.data());
    LandmarkScores(ctx, query.data(), shape.width, all.keys.data(), kCount, scores.data());
    std::nth_element(scores.begin(), scores.begin() + 7, scores.end(), std::greater<float>());
    const auto left = std::count_if(bounds.begin(), bounds.end(),
                                    [&](float bound) { return !(bound < scores[7]); });
    EXPECT_LT(left, kCount / 3) << "query " << seed;
  }
}

TEST(LandmarkSketchTest, BoundsAreThoseOfTheReference) {
  const SketchShape shape{640, 256};
  const Keys all(shape, ModelKeys(shape, 1000));
  const SketchQuery prepared = all.sketch->Prepare(Scalar(), Normals(shape.width, 5));
  const int64_t blocks = all.sketch->blocks() - 1;
  std::vector<float> expected(blocks * kSketchBlock);
  all.Bounds(Scalar(), prepared, 1, blocks, expected.data());
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    Guarded bounds(blocks * kSketchBlock);
    all.Bounds(ctx, prepared, 1, blocks, bounds.data());
    for (int64_t k = 0; k < blocks * kSketchBlock; ++k) {
      ASSERT_NEAR(bounds[k], expected[k], 1e-4) << IsaName(isa) << ", key " << k;
    }
  }
}

// Integers: all alike. A search that is given them finds the same.
TEST(LandmarkSketchTest, SumsOfSeveralQueriesAreThoseOfTheReference) {
  for (const SketchShape& shape : {SketchShape{640, 256}, SketchShape{163, 160}}) {
    constexpr int64_t kCount = 1000;
    const Keys all(shape, ModelKeys(shape, kCount));
    const auto end = static_cast<size_t>(all.sketch->coarse_numbers());
    for (const size_t count : {size_t{1}, size_t{2}, size_t{5}}) {
      std::vector<std::vector<float>> queries;
      std::vector<std::vector<int8_t>> weights;
      for (size_t q = 0; q < count; ++q) {
        queries.push_back(Normals(shape.width, static_cast<uint32_t>(q)));
        weights.push_back(all.sketch->CoarseWeights(std::span(queries[q]).last(end)));
        EXPECT_EQ(weights[q], all.sketch->Prepare(Scalar(), queries[q]).coarse);
      }
      const auto sums_of = [&](OpContext& ctx) {
        std::vector<std::vector<int32_t>> sums(
            count, std::vector<int32_t>(static_cast<size_t>(all.sketch->blocks() * kSketchBlock)));
        std::vector<SketchSums> of;
        for (size_t q = 0; q < count; ++q) of.push_back({weights[q].data(), sums[q].data()});
        all.sketch->Sum(ctx, of, 0, all.sketch->blocks());
        return sums;
      };
      const auto expected = sums_of(Scalar());
      for (const Isa isa : RunnableIsas()) {
        OpContext ctx(isa);
        const auto sums = sums_of(ctx);
        ASSERT_EQ(sums, expected) << IsaName(isa) << ", " << count;
        for (size_t q = 0; q < count; ++q) {
          const KeySegment plain{all.keys.data(), kCount};
          const KeySegment parts[] = {
              {all.keys.data(), 500, all.sketch.get(), 0, sums[q].data()},
              {all.keys.data() + 500 * shape.width, 500, all.sketch.get(), 500, sums[q].data()}};
          ASSERT_TRUE(SameBits({LandmarkTopK(ctx, queries[q], parts, 8)},
                               {LandmarkTopK(ctx, queries[q], {&plain, 1}, 8)}));
        }
      }
    }
  }
}

TEST(LandmarkSketchTest, PlacesOfBoundsNotBelowTheLeast) {
  std::vector<float> bounds = Normals(1000, 3);
  for (const size_t at : {0, 16, 17, 999}) bounds[at] = std::nanf("");
  bounds[5] = kInf;
  bounds[6] = -kInf;
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (const float least : {-kInf, 0.0f, bounds[7], kInf}) {
      for (const int64_t count : {0, 1, 15, 16, 33, 1000}) {
        std::vector<int64_t> expected, places(count);
        for (int64_t i = 0; i < count; ++i) {
          if (!(bounds[i] < least)) expected.push_back(i);
        }
        places.resize(BoundsNotBelow(ctx, bounds.data(), count, least, places.data()));
        EXPECT_EQ(places, expected) << IsaName(isa) << ", " << least << ", " << count;
      }
    }
  }
}

TEST(LandmarkSketchTest, SaysWhatItTakes) {
  // 40 directions in bytes and 384 numbers in half bytes, and the errors of 16 keys.
  EXPECT_EQ(LandmarkSketch::BytesOf({640, 256}, 16), 16 * (40 + 192) + 40);
  EXPECT_EQ(LandmarkSketch::BytesOf({640, 256}, 17), 2 * LandmarkSketch::BytesOf({640, 256}, 16));
  EXPECT_EQ(LandmarkSketch::BytesOf({640, 0}, 16), 16 * 320 + 40);
  EXPECT_EQ(LandmarkSketch::BytesOf({9, 9}, 1), 16 * 8 + 40);
}

}  // namespace
}  // namespace recollect::kernels
