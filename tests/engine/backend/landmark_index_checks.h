// Checks for any LandmarkIndex, run over the kernels' thread blocks on the host and over a GPU
// alike.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cpu/cpu_landmarks.h"
#include "engine/backend/landmark_index.h"
#include "kernels/landmark_topk/landmark_topk_plan.h"
#include "tests/engine/engine_testing.h"
#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::engine::landmark_checks {

// Keys of two documents and a session, and queries over some of them, on one device.
class Searching {
 public:
  static constexpr int kWidth = 24;

  explicit Searching(LandmarkIndex& device) : device_(device) {
    for (const int64_t count : {700, 90, 40}) {
      const std::vector<Bf16> keys =
          kernels::NormalBf16(count * kWidth, static_cast<uint32_t>(count));
      if (keys_.size() < 2) {
        keys_.push_back(*device.Keep(keys));
        continue;
      }
      keys_.push_back(*device.Keep({}));  // a session's: one by one
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(keys_.back()->Append(std::span(keys).subspan(i * kWidth, kWidth)),
                  absl::OkStatus());
      }
    }
    const std::vector<std::vector<std::pair<int, int64_t>>> all = {{{0, 700}, {1, 90}},
                                                                   {{0, 700}, {1, 90}},
                                                                   {{0, 700}, {1, 90}, {2, 40}},
                                                                   {{0, 700}, {1, 90}, {2, 17}},
                                                                   {{2, 3}},
                                                                   {}};
    for (size_t i = 0; i < all.size(); ++i) {
      LandmarkQuery& query = queries_.emplace_back();
      query.u = kernels::Normals(kWidth, static_cast<uint32_t>(i));
      for (const auto& [keys, count] : all[i]) query.runs.push_back({keys_[keys].get(), count});
      query.n = static_cast<int>(std::min<int64_t>(8, query.candidates()));
    }
  }
  std::vector<LandmarkQuery>& queries() { return queries_; }
  void Search() { device_.Search(queries_); }

 private:
  LandmarkIndex& device_;
  std::vector<std::unique_ptr<LandmarkKeys>> keys_;
  std::vector<LandmarkQuery> queries_;
};

inline void FindsWhatTheCpuFinds(LandmarkIndex& device) {
  CpuLandmarks cpu(std::make_shared<ComputeThreads>(2));
  Searching expected(cpu), searching(device);
  expected.Search();
  searching.Search();
  for (size_t i = 0; i < expected.queries().size(); ++i) {
    const LandmarkQuery& query = searching.queries()[i];
    EXPECT_EQ(query.status, absl::OkStatus());
    ASSERT_EQ(query.best.size(), static_cast<size_t>(query.n)) << i;
    for (size_t j = 0; j < query.best.size(); ++j) {
      EXPECT_EQ(query.best[j].candidate, expected.queries()[i].best[j].candidate) << i;
      EXPECT_NEAR(query.best[j].score, expected.queries()[i].best[j].score, 1e-5) << i;
    }
  }
}

inline void AQueryHasTheSameBitsAloneAndAmongOthers(LandmarkIndex& device) {
  Searching together(device), alone(device);
  together.Search();
  for (size_t i = 0; i < alone.queries().size(); ++i) {
    device.Search(std::span(alone.queries()).subspan(i, 1));
    EXPECT_EQ(alone.queries()[i].best, together.queries()[i].best) << i;
  }
}

inline void WhatADeviceCannotSearchFailsOnlyThatQuery(LandmarkIndex& device) {
  Searching searching(device);
  searching.queries()[2].n = kernels::kMaxDeviceTopK + 1;
  searching.Search();
  EXPECT_EQ(searching.queries()[2].status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(searching.queries()[2].status.message()),
              ::testing::HasSubstr("257, at most 256"));
  for (size_t i : {0, 1, 3, 4, 5}) EXPECT_EQ(searching.queries()[i].status, absl::OkStatus()) << i;
  EXPECT_EQ(searching.queries()[3].best.size(), size_t{8});
}

inline TestOptions On(std::shared_ptr<LandmarkIndex> device) {
  TestOptions options = SmallOptions();
  options.landmark_index = std::move(device);
  return options;
}

// A request that retrieves from two documents and the session's own chunks, in slices of its prompt
// and token by token.
inline GenerateRequest Ask() { return TokensRequest(SampleTokens(300, 7), 150, {"a", "b"}); }

inline std::unique_ptr<EngineImpl> WithDocuments(const TestOptions& options) {
  auto engine = MakeEngine(options);
  EXPECT_TRUE(IngestTokens(*engine, "a", SampleTokens(50 * 63, 1)).ok());
  EXPECT_TRUE(IngestTokens(*engine, "b", SampleTokens(900, 2)).ok());
  return engine;
}

inline void TheEngineGeneratesTheSameAsOnTheCpu(const std::shared_ptr<LandmarkIndex>& device) {
  const auto cpu = WithDocuments(SmallOptions()), engine = WithDocuments(On(device));
  EXPECT_EQ(cpu->stats().landmark_index, "cpu");
  EXPECT_EQ(engine->stats().landmark_index, device->name());
  const Generated expected = Generate(*cpu, Ask()), generated = Generate(*engine, Ask());
  ASSERT_EQ(generated.status, absl::OkStatus());
  EXPECT_EQ(generated.tokens, expected.tokens);
  ASSERT_EQ(generated.retrievals.size(), expected.retrievals.size());
  for (size_t i = 0; i < expected.retrievals.size(); ++i) {
    const Retrieval &a = generated.retrievals[i], &b = expected.retrievals[i];
    ASSERT_EQ(a.hits.size(), b.hits.size());
    EXPECT_EQ(a.candidates, b.candidates);
    for (size_t j = 0; j < b.hits.size(); ++j) {
      EXPECT_EQ(a.hits[j].document, b.hits[j].document);
      EXPECT_EQ(a.hits[j].chunk, b.hits[j].chunk);
    }
  }
  EXPECT_EQ(engine->stats().landmark_bytes, cpu->stats().landmark_bytes);
}

}  // namespace recollect::engine::landmark_checks
