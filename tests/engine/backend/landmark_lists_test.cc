// Lists of landmark keys: made by FAISS, kept as bytes, searched beside keys without lists.
#include "engine/backend/landmark_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/backend/cpu/cpu_landmarks.h"
#include "engine/backend/cpu/faiss_lists.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using kernels::ScoredCandidate;

constexpr int64_t kWidth = 48, kMeaning = 32;

bool Never() { return false; }

// Keys around topics, as those of a text are, and what asks for some of them.
class Topics {
 public:
  explicit Topics(uint64_t seed) : random_(seed) {
    for (auto& topic : topics_) topic = Noise(1);
  }
  std::vector<Bf16> Keys(int64_t count) {
    std::vector<Bf16> keys;
    for (int64_t i = 0; i < count; ++i) {
      for (const float x : Near()) keys.push_back(Bf16::FromFloat(x));
    }
    return keys;
  }
  LandmarkQuery Query(int n) {
    LandmarkQuery query;
    query.u = Near();
    query.n = n;
    return query;
  }

 private:
  std::vector<float> Noise(float scale) {
    std::vector<float> out(kWidth);
    std::normal_distribution<float> normal;
    for (float& x : out) x = scale * normal(random_);
    return out;
  }
  std::vector<float> Near() {
    std::vector<float> out = Noise(0.7f);
    const auto& topic = topics_[random_() % topics_.size()];
    for (size_t i = 0; i < out.size(); ++i) out[i] += topic[i];
    return out;
  }
  std::mt19937_64 random_;
  std::array<std::vector<float>, 40> topics_;
};

std::shared_ptr<const LandmarkLists> ListsOf(const std::vector<Bf16>& keys) {
  auto lists = FaissListMaker(kMeaning).Make(keys, kWidth, Never);
  EXPECT_THAT(lists, IsOk());
  return std::make_shared<const LandmarkLists>(*std::move(lists));
}

struct Mounted {
  std::unique_ptr<LandmarkKeys> keys;
  int64_t count;
};

class LandmarkListsTest : public testing::Test {
 protected:
  Mounted Keep(std::vector<Bf16> keys, bool listed) {
    const auto count = static_cast<int64_t>(keys.size()) / kWidth;
    if (!listed) return {*landmarks_.Keep(std::move(keys)), count};
    const auto lists = ListsOf(keys);
    OrderKeys(*lists, keys);
    Mounted mounted{*landmarks_.Keep({}), count};
    EXPECT_THAT(mounted.keys->UseLists({std::move(keys), lists}), IsOk());
    return mounted;
  }
  std::vector<ScoredCandidate> Search(LandmarkQuery query, const std::vector<const Mounted*>& in) {
    query.runs.clear();
    for (const Mounted* mounted : in) query.runs.push_back({mounted->keys.get(), mounted->count});
    landmarks_.Search(std::span(&query, 1));
    EXPECT_THAT(query.status, IsOk());
    return query.best;
  }
  CpuLandmarks landmarks_{std::make_shared<ComputeThreads>(2)};
};

// Every hit is one that an exact search scores alike, in its order; the part that is found.
double Recall(const std::vector<ScoredCandidate>& found, const std::vector<ScoredCandidate>& all,
              size_t n) {
  EXPECT_EQ(found.size(), n);
  size_t same = 0, at = 0;
  for (const ScoredCandidate& hit : found) {
    while (at < all.size() && !(all[at] == hit)) ++at;
    EXPECT_LT(at, all.size()) << hit.candidate << " is not of the exact search, or out of order";
    if (at < n) ++same;
  }
  return static_cast<double>(same) / static_cast<double>(n);
}

TEST_F(LandmarkListsTest, FindsMostOfWhatAnExactSearchFindsWithTheSameScores) {
  constexpr int64_t kKeys = 20000;
  constexpr int kHits = 8, kQueries = 50;
  Topics topics(1);
  const std::vector<Bf16> keys = topics.Keys(kKeys);
  const Mounted exact = Keep(keys, false), listed = Keep(keys, true);
  double recall = 0;
  for (int i = 0; i < kQueries; ++i) {
    LandmarkQuery query = topics.Query(kHits);
    const auto found = Search(query, {&listed});
    query.n = kKeys;
    recall += Recall(found, Search(query, {&exact}), kHits);
  }
  EXPECT_GT(recall / kQueries, 0.95);
}

TEST_F(LandmarkListsTest, DocumentsWithListsAndWithoutAreOneSetOfCandidates) {
  Topics topics(2);
  const std::vector<Bf16> a = topics.Keys(300), b = topics.Keys(9000), c = topics.Keys(8300);
  const Mounted exact_a = Keep(a, false), exact_b = Keep(b, false), exact_c = Keep(c, false);
  const Mounted listed_b = Keep(b, true), listed_c = Keep(c, true);
  constexpr int kHits = 12;
  double recall = 0;
  for (int i = 0; i < 20; ++i) {
    LandmarkQuery query = topics.Query(kHits);
    const auto found = Search(query, {&listed_c, &exact_a, &listed_b});
    query.n = 17600;
    recall += Recall(found, Search(query, {&exact_c, &exact_a, &exact_b}), kHits) / 20;
  }
  EXPECT_GT(recall, 0.95);
}

// More hits than the best lists are sure to have: all keys are scored.
TEST_F(LandmarkListsTest, AskedForManyItIsExact) {
  Topics topics(3);
  const std::vector<Bf16> keys = topics.Keys(5000);
  const Mounted exact = Keep(keys, false), listed = Keep(keys, true);
  for (const int n : {79, 1024, 5000}) {
    const LandmarkQuery query = topics.Query(n);
    EXPECT_EQ(Search(query, {&listed}), Search(query, {&exact})) << n;
  }
}

TEST_F(LandmarkListsTest, AQueryFindsTheSameAloneAndAmongOthers) {
  Topics topics(4);
  const Mounted listed = Keep(topics.Keys(9000), true), exact = Keep(topics.Keys(100), false);
  std::vector<LandmarkQuery> together;
  for (int i = 0; i < 9; ++i) {
    LandmarkQuery query = topics.Query(i);  // one asks for nothing
    if (i % 3 != 0) query.runs.push_back({exact.keys.get(), 70});
    if (i != 4) query.runs.push_back({listed.keys.get(), listed.count});
    together.push_back(std::move(query));
  }
  std::vector<LandmarkQuery> alone = together;
  landmarks_.Search(together);
  for (size_t i = 0; i < alone.size(); ++i) {
    landmarks_.Search(std::span(alone).subspan(i, 1));
    EXPECT_EQ(alone[i].best, together[i].best) << i;
    EXPECT_EQ(alone[i].best.size(), i);
  }
}

// Searches that are under way keep what they began with.
TEST_F(LandmarkListsTest, KeysMayGetTheirListsAtAnyTime) {
  Topics topics(5);
  std::vector<Bf16> keys = topics.Keys(9000);
  const Mounted mounted = Keep(keys, false);
  const auto lists = ListsOf(keys);
  OrderKeys(*lists, keys);
  const LandmarkQuery query = topics.Query(8);
  const auto exact = Search(query, {&mounted});
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) EXPECT_THAT(mounted.keys->UseLists({keys, lists}), IsOk());
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Search(query, {&mounted}).size(), exact.size());
  other.join();
  EXPECT_EQ(Search(query, {&mounted}).front(), exact.front());
}

TEST(FaissListMakerTest, EveryChunkIsInOneListAndTheSameKeysGiveTheSameLists) {
  Topics topics(6);
  for (const int64_t count : {1, 2, 3, 100, 3000}) {
    const std::vector<Bf16> keys = topics.Keys(count);
    const auto lists = ListsOf(keys);
    EXPECT_EQ(lists->chunks(), count);
    EXPECT_GE(lists->lists(), 1);
    EXPECT_EQ(lists->centroids.size(), static_cast<size_t>(lists->lists() * kWidth));
    const auto again = DecodeLists(EncodeLists(*lists), count, kWidth);  // checks all else
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(*again, *lists);
    EXPECT_EQ(*ListsOf(keys), *lists);

    std::vector<Bf16> ordered = keys;
    OrderKeys(*lists, ordered);
    for (size_t i = 0; i < lists->order.size(); ++i) {
      const auto from = keys.begin() + lists->order[i] * kWidth;
      ASSERT_TRUE(
          std::equal(from, from + kWidth, ordered.begin() + static_cast<int64_t>(i) * kWidth))
          << i << " of " << count;
    }
  }
}

TEST(FaissListMakerTest, EndsWhenItIsCancelled) {
  Topics topics(7);
  const std::vector<Bf16> keys = topics.Keys(20000);
  int asked = 0;
  EXPECT_THAT(FaissListMaker(kMeaning).Make(keys, kWidth, [&] { return ++asked > 3; }),
              StatusIs(StatusCode::kCancelled, "landmark keys"));
  EXPECT_EQ(asked, 4);
  asked = -1000;
  EXPECT_THAT(FaissListMaker(kMeaning).Make(keys, kWidth, [&] { return ++asked > 0; }), IsOk());
  EXPECT_GE(asked, -990) << "it must ask often enough";
}

TEST(FaissListMakerTest, KeysThatAreNotFiniteAreAnError) {
  Topics topics(8);
  std::vector<Bf16> keys = topics.Keys(2000);
  keys[kWidth * 700] = Bf16::FromFloat(std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(FaissListMaker(kMeaning).Make(keys, kWidth, Never),
              StatusIs(StatusCode::kInternal, ""));
}

TEST(LandmarkListsFormTest, WhatDoesNotFitIsDataLoss) {
  Topics topics(9);
  const auto lists = ListsOf(topics.Keys(100));
  const std::string bytes = EncodeLists(*lists);
  EXPECT_THAT(DecodeLists(bytes, 101, kWidth),
              StatusIs(StatusCode::kDataLoss, "100 keys of 48 numbers, expected 101 of 48"));
  EXPECT_THAT(DecodeLists(bytes, 100, kWidth + 1), StatusIs(StatusCode::kDataLoss, "of 49"));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeLists(bytes.substr(0, size), 100, kWidth),
                StatusIs(StatusCode::kDataLoss, "index over landmark keys"))
        << size;
  }
  EXPECT_THAT(DecodeLists(bytes + '\0', 100, kWidth), StatusIs(StatusCode::kDataLoss, "bytes"));
  const auto expect = [&](const char* fragment, auto change) {
    LandmarkLists bad = *lists;
    change(bad);
    EXPECT_THAT(DecodeLists(EncodeLists(bad), 100, kWidth),
                StatusIs(StatusCode::kDataLoss, fragment));
  };
  expect("chunk", [](LandmarkLists& bad) { bad.order[5] = bad.order[6]; });
  expect("chunk 100 of 100", [](LandmarkLists& bad) { bad.order[99] = 100; });
  expect("chunk -1", [](LandmarkLists& bad) { bad.order[0] = -1; });
  expect("do not follow", [](LandmarkLists& bad) { bad.begins[1] = 101; });
  expect("do not follow", [](LandmarkLists& bad) { bad.begins.back() = 99; });
  expect("do not follow", [](LandmarkLists& bad) { bad.begins.front() = -1; });
  std::string newer = bytes;
  newer[0] = 2;
  EXPECT_THAT(DecodeLists(newer, 100, kWidth),
              StatusIs(StatusCode::kDataLoss, "version 2, expected 1"));
}

}  // namespace
}  // namespace recollect::engine
