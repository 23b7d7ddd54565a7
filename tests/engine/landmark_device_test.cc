// Landmark keys on another device than the CPU: its layout of a search, and the engine over it. The
// device is the host, running the thread blocks of the CUDA kernels.
#include "engine/landmark_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/planned_landmarks.h"
#include "kernels/landmark_topk_block.h"
#include "tests/engine/landmark_device_checks.h"
#include "tests/kernels/host_block.h"

namespace recollect::engine {
namespace {

using landmark_checks::Ask;
using landmark_checks::On;
using landmark_checks::WithDocuments;
using ::testing::HasSubstr;

class BlocksOnHost final : public PlannedLandmarks {
 public:
  BlocksOnHost() : PlannedLandmarks(2) {}
  std::string name() const override { return "thread blocks"; }

  std::atomic<int> runs{0};

 protected:
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(int64_t numbers) override {
    return std::make_unique<InRam>(numbers);
  }
  absl::Status Upload(std::span<const Bf16> from, Bf16* to) override {
    return CopyWithin(from.data(), static_cast<int64_t>(from.size()), to);
  }
  absl::Status CopyWithin(const Bf16* from, int64_t count, Bf16* to) override {
    std::copy_n(from, count, to);
    return absl::OkStatus();
  }
  absl::Status Run(std::span<const Launch> launches, std::span<const std::byte> in,
                   std::span<std::byte> out) override {
    ++runs;
    for (const Launch& launch : launches) {
      const kernels::LandmarkTopKPlan& plan = launch.plan;
      std::vector<uint64_t> workspace(plan.workspace_bytes / sizeof(uint64_t), ~uint64_t{0});
      kernels::cuda::LandmarkArgs args;
      args.plan = plan;
      args.queries = reinterpret_cast<const float*>(in.data() + launch.queries);
      args.segments = reinterpret_cast<const kernels::SegmentStart*>(in.data() + launch.segments);
      args.workspace = workspace.data();
      args.candidates = reinterpret_cast<int64_t*>(out.data() + launch.candidates);
      args.scores = reinterpret_cast<float*>(out.data() + launch.scores);
      kernels::RunBlocks<kernels::cuda::LandmarkShared>(
          kernels::HostOrder::kPhases, plan.query_tiles * plan.parts, kernels::cuda::kTopKThreads,
          [&](kernels::HostBlock& block, kernels::cuda::LandmarkShared& shared, int64_t i) {
            kernels::cuda::LandmarkPart(block, shared, args, i / plan.query_tiles,
                                        i % plan.query_tiles);
          });
      kernels::RunBlocks<kernels::cuda::TopKList>(
          kernels::HostOrder::kPhases, plan.sizes.queries, kernels::cuda::kTopKThreads,
          [&](kernels::HostBlock& block, kernels::cuda::TopKList& list, int64_t query) {
            kernels::cuda::LandmarkMerge(block, list, args, query);
          });
    }
    return absl::OkStatus();
  }

 private:
  class InRam final : public Memory {
   public:
    explicit InRam(int64_t numbers)
        : numbers_(static_cast<size_t>(numbers),
                   Bf16::FromFloat(std::numeric_limits<float>::infinity())) {}
    Bf16* data() override { return numbers_.data(); }

   private:
    std::vector<Bf16> numbers_;
  };
};

TEST(LandmarkDeviceTest, FindsWhatTheCpuFinds) {
  BlocksOnHost blocks;
  landmark_checks::FindsWhatTheCpuFinds(blocks);
  EXPECT_EQ(blocks.runs, 1) << "one trip to the device for all";
}

TEST(LandmarkDeviceTest, AQueryHasTheSameBitsAloneAndAmongOthers) {
  BlocksOnHost blocks;
  landmark_checks::AQueryHasTheSameBitsAloneAndAmongOthers(blocks);
}

TEST(LandmarkDeviceTest, WhatADeviceCannotSearchFailsOnlyThatQuery) {
  BlocksOnHost blocks;
  landmark_checks::WhatADeviceCannotSearchFailsOnlyThatQuery(blocks);
}

TEST(LandmarkDeviceTest, TheEngineGeneratesTheSameAsOnTheCpu) {
  const auto blocks = std::make_shared<BlocksOnHost>();
  landmark_checks::TheEngineGeneratesTheSameAsOnTheCpu(blocks);
  EXPECT_GT(blocks->runs, 0);
}

// Fails when told to.
class Faulty final : public LandmarkDevice {
 public:
  explicit Faulty(LandmarkDevice& to) : to_(to) {}
  std::string name() const override { return "faulty"; }
  absl::StatusOr<std::unique_ptr<LandmarkKeys>> Keep(std::vector<Bf16> keys) override {
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
  LandmarkDevice& to_;
};

TEST(LandmarkDeviceTest, FullAndLostDevicesAreStatusesAndTheEngineGoesOn) {
  BlocksOnHost blocks;
  const auto faulty = std::make_shared<Faulty>(blocks);
  const auto engine = WithDocuments(On(faulty));
  faulty->full = true;
  const absl::Status full = engine->OpenSession({.mounts = {"a"}}).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("document \"a\": 640 bytes of device memory"));
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
