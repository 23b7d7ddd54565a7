// Landmark keys on another device than the CPU: its layout of a search, and the engine over it. The
// device is the host, running the thread blocks of the CUDA kernels.
#include "engine/backend/landmark_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cpu/sketch_sums.h"
#include "engine/backend/device/device_landmarks.h"
#include "engine/backend/landmark_lists.h"
#include "tests/engine/backend/landmark_index_checks.h"
#include "tests/kernels/device/host_device.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using kernels::HostDevice;
using landmark_checks::Ask;
using landmark_checks::On;
using landmark_checks::WithDocuments;
using ::testing::ElementsAre;
using ::testing::Ge;

TEST(LandmarkIndexTest, FindsWhatTheCpuFinds) {
  const auto device = std::make_shared<HostDevice>();
  DeviceLandmarks landmarks(device);
  landmark_checks::FindsWhatTheCpuFinds(landmarks);
  EXPECT_EQ(device->downloads(), 1) << "one trip to the device for all";
}

TEST(LandmarkIndexTest, AQueryHasTheSameBitsAloneAndAmongOthers) {
  DeviceLandmarks landmarks(std::make_shared<HostDevice>());
  landmark_checks::AQueryHasTheSameBitsAloneAndAmongOthers(landmarks);
}

TEST(LandmarkIndexTest, WhatADeviceCannotSearchFailsOnlyThatQuery) {
  DeviceLandmarks landmarks(std::make_shared<HostDevice>());
  landmark_checks::WhatADeviceCannotSearchFailsOnlyThatQuery(landmarks);
}

TEST(LandmarkIndexTest, TheEngineGeneratesTheSameAsOnTheCpu) {
  const auto device = std::make_shared<HostDevice>();
  landmark_checks::TheEngineGeneratesTheSameAsOnTheCpu(std::make_shared<DeviceLandmarks>(device));
  EXPECT_GT(device->downloads(), 0);
}

// Two documents with sketches and one without, keys appended to one, several queries at once.
TEST(LandmarkIndexTest, SketchesChangeNothingThatIsFound) {
  constexpr int64_t kWidth = 200, kDense = 160;
  const auto threads = std::make_shared<ComputeThreads>(3);
  CpuLandmarks plain(threads), sketching(threads, {kWidth, kDense});
  const int64_t bytes = 9000 * kWidth * 2;
  EXPECT_EQ(plain.BytesOf(9000, kWidth), bytes);
  EXPECT_GT(sketching.BytesOf(9000, kWidth), bytes + bytes / 8);
  EXPECT_LT(sketching.BytesOf(9000, kWidth), bytes + bytes / 3);
  EXPECT_EQ(sketching.BytesOf(100, kWidth), 100 * kWidth * 2);
  EXPECT_EQ(plain.sketched_keys(), 0);
  const int64_t least = sketching.sketched_keys();
  EXPECT_EQ(sketching.BytesOf(least - 1, kWidth), plain.BytesOf(least - 1, kWidth));
  EXPECT_GT(sketching.BytesOf(least, kWidth), plain.BytesOf(least, kWidth));

  std::vector<LandmarkQuery> queries[2];
  std::vector<std::unique_ptr<LandmarkKeys>> kept[2];
  for (const int with : {0, 1}) {
    LandmarkIndex& landmarks = with == 1 ? sketching : plain;
    for (const int64_t count : {20011, 300, 9000}) {
      kept[with].push_back(
          *landmarks.Keep(kernels::NormalBf16(count * kWidth, static_cast<uint32_t>(count))));
    }
    EXPECT_EQ(kept[with][2]->Append(kernels::NormalBf16(70 * kWidth, 5)), absl::OkStatus());
    for (uint32_t seed = 0; seed < 4; ++seed) {
      LandmarkQuery& query = queries[with].emplace_back();
      query.u = kernels::Normals(kWidth, seed);
      query.n = seed == 0 ? 500 : 8;
      query.runs = {{kept[with][0].get(), 20011}, {kept[with][1].get(), 300}};
      if (seed > 0) query.runs.push_back({kept[with][2].get(), 9000 + (seed == 1 ? 70 : 0)});
      if (seed == 3) std::swap(query.runs[0], query.runs[2]);
    }
    sketching.AwaitSketches();
    landmarks.Search(queries[with]);
  }
  for (size_t i = 0; i < queries[0].size(); ++i) {
    EXPECT_EQ(queries[1][i].status, absl::OkStatus());
    EXPECT_EQ(queries[1][i].best, queries[0][i].best) << i;
  }
}

// Searched while a sketch is being made, with it, and gone before it is there.
TEST(LandmarkIndexTest, SketchesComeLaterAndKeysMayGoBefore) {
  constexpr int64_t kWidth = 200, kDense = 160, kCount = 20011;
  const auto threads = std::make_shared<ComputeThreads>(2);
  CpuLandmarks plain(threads), sketching(threads, {kWidth, kDense});
  const std::vector<Bf16> keys = kernels::NormalBf16(kCount * kWidth, 8);
  const auto found = [&](LandmarkIndex& landmarks, const LandmarkKeys& kept) {
    LandmarkQuery query;
    query.u = kernels::Normals(kWidth, 1);
    query.n = 8;
    query.runs = {{&kept, kCount}};
    landmarks.Search(std::span(&query, 1));
    return query.best;
  };
  const std::vector<kernels::ScoredCandidate> expected = found(plain, **plain.Keep(keys));
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<LandmarkKeys> kept = *sketching.Keep(keys);
    EXPECT_EQ(found(sketching, *kept), expected);
    if (i % 10 > 0) continue;
    sketching.AwaitSketches();
    EXPECT_EQ(found(sketching, *kept), expected);
  }
  const std::unique_ptr<LandmarkKeys> last = *sketching.Keep(keys);  // its sketch is never used
}

// As a session's own keys, searched after each of them for a while, also with what a search did
// ahead before the sketch grew.
TEST(LandmarkIndexTest, AppendedKeysHaveASketchThatGrows) {
  constexpr int64_t kWidth = 264, kDense = 160, kBefore = 9001, kCount = 9100;
  const auto threads = std::make_shared<ComputeThreads>(2);
  CpuLandmarks plain(threads), sketching(threads, {kWidth, kDense});
  std::vector<Bf16> keys = kernels::NormalBf16(kCount * kWidth, 3);
  const std::vector<float> u = kernels::Normals(kWidth, 1);
  for (int64_t at = kBefore; at < kCount; ++at) {  // the later, the better
    for (int64_t i = 0; i < kWidth; ++i) {
      const float number =
          u[static_cast<size_t>(i)] * (1 + 0.01f * static_cast<float>(at - kBefore));
      keys[static_cast<size_t>(at * kWidth + i)] = Bf16::FromFloat(number);
    }
  }
  const std::unique_ptr<LandmarkKeys> expected = *plain.Keep(keys), kept = *sketching.Keep({});
  const auto append = [&](int64_t at) {
    ASSERT_EQ(kept->Append(std::span(keys).subspan(at * kWidth, kWidth)), absl::OkStatus());
  };
  for (int64_t at = 0; at < kBefore; ++at) append(at);
  sketching.AwaitSketches();
  const auto query_of = [&](const LandmarkKeys& of, int64_t count) {
    LandmarkQuery query;
    query.u = u;
    query.n = 8;
    query.runs = {{&of, count}};
    return query;
  };
  std::shared_ptr<const SearchAhead> known;
  std::vector<int64_t> summed;  // keys, each time that sums were made
  for (int64_t at = kBefore; at < kCount; ++at) {
    append(at);
    LandmarkQuery asked = query_of(*kept, at + 1), all = query_of(*expected, at + 1);
    asked.later = {{u.begin() + kDense, u.end()}};
    asked.known = known;
    plain.Search({&all, 1});
    sketching.Search({&asked, 1});
    ASSERT_EQ(asked.best, all.best) << at;
    ASSERT_EQ(asked.ahead.size(), size_t{1});
    const auto& ahead = dynamic_cast<const SumsAhead&>(*asked.ahead.front());
    if (ahead.of.empty()) continue;  // those known are of use
    summed.push_back(ahead.of.front().count);
    known = asked.ahead.front();
  }
  EXPECT_THAT(summed, ElementsAre(Ge(8192), 9008, 9024, 9040, 9056, 9072, 9088));
}

// What a search does ahead for later queries changes nothing that these find, whether they are what
// was announced or not, and whoever asks together.
TEST(LandmarkIndexTest, WhatASearchDoesAheadChangesNothingThatIsFound) {
  constexpr int64_t kWidth = 264, kDense = 160, kCount = 20011;
  const auto threads = std::make_shared<ComputeThreads>(3);
  CpuLandmarks plain(threads), sketching(threads, {kWidth, kDense});
  std::vector<std::unique_ptr<LandmarkKeys>> kept[2];
  for (const uint32_t seed : {1, 2}) {
    std::vector<Bf16> keys = kernels::NormalBf16(kCount * kWidth, seed);
    std::copy_n(keys.begin(), 3000 * kWidth, keys.begin() + 9000 * kWidth);  // ties
    kept[0].push_back(*plain.Keep(keys));
    kept[1].push_back(*sketching.Keep(keys));
  }
  sketching.AwaitSketches();
  const auto query_of = [&](uint32_t seed, int with) {
    LandmarkQuery query;
    query.u = kernels::Normals(kWidth, seed);
    query.n = 8;
    for (const auto& keys : kept[with]) query.runs.push_back({keys.get(), kCount});
    return query;
  };
  for (const size_t together : {size_t{1}, size_t{2}, size_t{20}}) {
    std::vector<LandmarkQuery> first, later, expected;
    for (size_t i = 0; i < together; ++i) {
      const auto seed = static_cast<uint32_t>(100 + 2 * i);
      first.push_back(query_of(seed, 1));
      later.push_back(query_of(seed + 1, 1));
      if (together < 3) {
        const std::vector<float>& u = later.back().u;
        first.back().later.emplace_back(u.begin() + kDense, u.end());
        first.back().later.emplace_back(3, 1.0f);  // of another width
      }
      expected.push_back(query_of(seed, 0));
      expected.push_back(query_of(seed + 1, 0));
    }
    plain.Search(expected);
    sketching.Search(first);
    for (size_t i = 0; i < together; ++i) {
      EXPECT_EQ(first[i].best, expected[2 * i].best) << i << " of " << together;
      ASSERT_EQ(first[i].ahead.size(), first[i].later.size());
      if (!first[i].ahead.empty()) later[i].known = first[i].ahead.front();
    }
    if (together == 2) std::swap(later[0].known, later[1].known);  // not what was announced
    sketching.Search(later);
    for (size_t i = 0; i < together; ++i) {
      EXPECT_EQ(later[i].best, expected[2 * i + 1].best) << i << " of " << together;
    }
  }
}

// Keys in the order of lists, some of which a search chooses.
TEST(LandmarkIndexTest, SketchesChangeNothingThatListsFind) {
  constexpr int64_t kWidth = 200, kDense = 160, kCount = 20011, kLists = 40;
  LandmarkLists lists;
  lists.d_k = kWidth;
  lists.centroids = kernels::NormalBf16(kLists * kWidth, 6);
  for (int64_t list = 0; list <= kLists; ++list) lists.begins.push_back(kCount * list / kLists);
  for (int64_t i = 0; i < kCount; ++i) {
    lists.order.push_back(static_cast<int32_t>(i * 7 % kCount));
  }
  const auto shared = std::make_shared<const LandmarkLists>(lists);
  std::vector<Bf16> keys = kernels::NormalBf16(kCount * kWidth, 7);
  OrderKeys(lists, keys);

  const auto threads = std::make_shared<ComputeThreads>(3);
  CpuLandmarks plain(threads), sketching(threads, {kWidth, kDense});
  std::vector<LandmarkQuery> queries[2];
  for (const int with : {0, 1}) {
    LandmarkIndex& landmarks = with == 1 ? sketching : plain;
    const std::unique_ptr<LandmarkKeys> kept = *landmarks.Keep({});
    EXPECT_EQ(kept->UseLists({keys, shared}), absl::OkStatus());
    for (uint32_t seed = 0; seed < 3; ++seed) {
      LandmarkQuery& query = queries[with].emplace_back();
      query.u = kernels::Normals(kWidth, seed);
      query.n = 8;
      query.runs = {{kept.get(), kCount}};
    }
    sketching.AwaitSketches();
    landmarks.Search(queries[with]);
  }
  for (size_t i = 0; i < queries[0].size(); ++i) {
    EXPECT_EQ(queries[0][i].best.size(), size_t{8});
    EXPECT_EQ(queries[1][i].best, queries[0][i].best) << i;
  }
}

// The device is smaller than the budget: keys that nobody has mounted go.
TEST(LandmarkIndexTest, UnpinnedDocumentsMakeRoom) {
  const auto device = std::make_shared<HostDevice>();
  const auto engine = WithDocuments(On(std::make_shared<DeviceLandmarks>(device)));
  const SessionId first = *engine->OpenSession({.mounts = {"a"}});
  const int64_t of_a = engine->stats().landmark_bytes;
  EXPECT_EQ(MakeEngine()->stats().device_total_bytes, 0) << "no device";
  device->LimitBytes(device->bytes() + 10);
  EXPECT_EQ(engine->stats().device_free_bytes, 10);
  EXPECT_EQ(engine->stats().device_total_bytes, device->bytes() + 10);
  EXPECT_EQ(engine->OpenSession({.mounts = {"b"}}).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(engine->CloseSession(first).ok());
  AwaitBackground(*engine);
  EXPECT_EQ(engine->OpenSession({.mounts = {"b"}}).status(), absl::OkStatus());
  EXPECT_LT(engine->stats().landmark_bytes, of_a);
}

// Fails when told to.
class Faulty final : public LandmarkIndex {
 public:
  explicit Faulty(LandmarkIndex& to) : to_(to) {}
  std::string name() const override { return "faulty"; }
  absl::StatusOr<std::unique_ptr<LandmarkKeys>> Keep(LargeVector<Bf16> keys) override {
    if (full) return absl::ResourceExhaustedError("640 bytes of device memory: out of memory");
    return to_.Keep(std::move(keys));
  }
  void Search(std::span<LandmarkQuery> queries) override {
    to_.Search(queries);
    if (!lost) return;
    for (LandmarkQuery& query : queries) query.status = absl::UnavailableError("device lost");
  }

  std::atomic<bool> full{false}, lost{false};

 private:
  LandmarkIndex& to_;
};

TEST(LandmarkIndexTest, TheEngineIsAsHealthyAsItsLandmarks) {
  const auto device = std::make_shared<HostDevice>();
  const auto engine = WithDocuments(On(std::make_shared<DeviceLandmarks>(device)));
  EXPECT_EQ(engine->health(), absl::OkStatus());
  device->LoseAfter(0);
  EXPECT_EQ(Generate(*engine, Ask()).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine->health().code(), absl::StatusCode::kUnavailable);
}

TEST(LandmarkIndexTest, FullAndLostDevicesAreStatusesAndTheEngineGoesOn) {
  DeviceLandmarks landmarks(std::make_shared<HostDevice>());
  const auto faulty = std::make_shared<Faulty>(landmarks);
  const auto engine = WithDocuments(On(faulty));
  faulty->full = true;
  const absl::Status full = engine->OpenSession({.mounts = {"a"}}).status();
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted,
                             "document \"a\": 640 bytes of device memory"));
  EXPECT_EQ(engine->stats().landmark_bytes, 0);
  faulty->full = false;

  const Generated before = Generate(*engine, Ask());
  EXPECT_EQ(before.status, absl::OkStatus());
  faulty->lost = true;
  EXPECT_EQ(Generate(*engine, Ask()).status.code(), absl::StatusCode::kUnavailable);
  faulty->full = true;  // a session's own chunk
  faulty->lost = false;
  const absl::Status own = Generate(*engine, TokensRequest(SampleTokens(100, 8), 1)).status;
  EXPECT_EQ(own.code(), absl::StatusCode::kResourceExhausted) << own;
  faulty->full = false;
  const Generated after = Generate(*engine, Ask());
  EXPECT_EQ(after.status, absl::OkStatus());
  EXPECT_EQ(after.tokens, before.tokens);
}

}  // namespace
}  // namespace recollect::engine
