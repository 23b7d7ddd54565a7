// A pretrained model with its layers on a device, which is the host, running the thread blocks of
// the CUDA operations: the tokens, scores and passages of the CPU, alone and beside others.
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backend/device/device_backend.h"
#include "engine/backend/device/device_sparse.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/kernels/device/host_device.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

class DeviceLlamaTest : public ::testing::Test {
 protected:
  std::unique_ptr<EngineImpl> Make(TestOptions options = SmallOptions(),
                                   DType dtype = DType::kFloat32) {
    auto loaded = model::Model::Load(LlamaDirectoryForTest(kContext), dtype);
    EXPECT_THAT(loaded, IsOk());
    const std::shared_ptr<const model::Model> model = *std::move(loaded);
    options.backend = DeviceBackend::Create(device_, *model).value();
    options.sparse = std::make_shared<DeviceSparse>(device_);
    return MakeEngine(options, nullptr, model);
  }
  static std::unique_ptr<EngineImpl> MakeOnCpu() {
    return MakeEngine(SmallOptions(), nullptr, LlamaModelForTest(kContext));
  }

  // Greedy ones, one that samples, and one under a pattern that leaves positions out.
  static std::vector<GenerateRequest> Requests() {
    std::vector<GenerateRequest> requests;
    for (int i = 0; i < 5; ++i) {
      requests.push_back(TokensRequest(SampleTokens(30 + 67 * i, 40 + i), 40));
    }
    requests[1].sampling = {.temperature = 0.8, .top_p = 0.9, .top_k = 50, .seed = 3};
    requests[2].session_options.window = 31;
    requests[2].session_options.dilation = -1;
    requests[2].session_options.initial = 4;
    return requests;
  }

  static constexpr int64_t kContext = 2048;

  const std::shared_ptr<kernels::HostDevice> device_ = std::make_shared<kernels::HostDevice>();
};

TEST_F(DeviceLlamaTest, TokensAndScoresAreThoseOfTheCpu) {
  const auto cpu = MakeOnCpu(), engine = Make();
  EXPECT_EQ(engine->stats().backend, device_->name());
  for (const GenerateRequest& request : Requests()) {
    const Generated expected = Generate(*cpu, request);
    ASSERT_EQ(expected.tokens.size(), 40u);
    EXPECT_EQ(Generate(*engine, request).tokens, expected.tokens);
  }
  ScoreRequest request = ScoreOf(SampleTokens(200, 3));
  const auto expected = Score(*cpu, request), actual = Score(*engine, request);
  ASSERT_THAT(expected, IsOk());
  ASSERT_THAT(actual, IsOk());
  EXPECT_EQ(actual->argmax, expected->argmax);
  for (size_t i = 0; i < expected->logprobs.size(); ++i) {
    EXPECT_NEAR(actual->logprobs[i], expected->logprobs[i], 1e-4) << i;
  }
}

TEST_F(DeviceLlamaTest, AnySliceAndBatchGiveTheSameTokens) {
  for (const DType dtype : {DType::kFloat32, DType::kBf16}) {
    std::vector<std::vector<int32_t>> alone;
    const auto engine = Make(SmallOptions(), dtype);
    for (const GenerateRequest& request : Requests()) {
      alone.push_back(Generate(*engine, request).tokens);
      ASSERT_EQ(alone.back().size(), 40u);
    }
    for (const int64_t slice : {1, 7, 512}) {
      TestOptions options = SmallOptions();
      options.prefill_slice_tokens = slice;
      const auto other = Make(options, dtype);
      std::vector<std::shared_ptr<Collector>> running;
      for (const GenerateRequest& request : Requests()) {
        running.push_back(std::make_shared<Collector>());
        other->Generate(request, running.back());
      }
      for (size_t i = 0; i < running.size(); ++i) {
        EXPECT_EQ(running[i]->Wait().tokens, alone[i]) << "slice " << slice << " request " << i;
      }
    }
  }
}

// A conversation whose later turn goes on from the prompt cache, with passages in front of it.
TEST_F(DeviceLlamaTest, DocumentsAreReadAsOnTheCpu) {
  const auto cpu = MakeOnCpu();
  TestOptions caching = SmallOptions();
  caching.prompt_cache_bytes = 1 << 20;
  const auto engine = Make(caching);
  for (EngineImpl* const each : {cpu.get(), engine.get()}) {
    ASSERT_THAT(Ingest(*each, "sea", SampleText(3000, 5)), IsOk());
  }
  GenerateRequest request = TokensRequest({}, 20, {"sea"});
  request.prompt.messages = {{.role = ChatRole::kUser, .content = "What did captain Ahab say?"}};
  request.session_options.text_tokens = 200;
  request.with_retrievals = true;
  for (int turn = 0; turn < 2; ++turn) {
    const Generated expected = Generate(*cpu, request), actual = Generate(*engine, request);
    ASSERT_THAT(expected.status, IsOk());
    ASSERT_THAT(actual.status, IsOk());
    EXPECT_EQ(actual.tokens, expected.tokens);
    EXPECT_EQ(actual.usage.prompt_tokens, expected.usage.prompt_tokens);
    EXPECT_EQ(actual.usage.cached_tokens > 0, turn == 1);
    ASSERT_EQ(actual.retrievals.size(), 1u);
    EXPECT_THAT(actual.retrievals[0].hits, Not(IsEmpty()));
    EXPECT_EQ(actual.retrievals[0].hits.size(), expected.retrievals[0].hits.size());
    request.prompt.messages.push_back({.role = ChatRole::kAssistant, .content = actual.text});
    request.prompt.messages.push_back({.role = ChatRole::kUser, .content = "And of the whale?"});
  }
}

TEST_F(DeviceLlamaTest, WhatFindsNoMemoryEndsAndTheOthersGoOn) {
  TestOptions options = SmallOptions();
  options.state_budget_bytes = 400 << 10;
  const auto engine = Make(options);
  const GenerateRequest request = TokensRequest(SampleTokens(60, 2), 10);
  const std::vector<int32_t> expected = Generate(*engine, request).tokens;
  ASSERT_EQ(expected.size(), 10u);
  EXPECT_THAT(
      Generate(*engine, TokensRequest(SampleTokens(1500, 2), 1)).status,
      StatusIs(absl::StatusCode::kResourceExhausted, absl::StrCat("the budget is ", 400 << 10)));
  device_->LimitBytes(0);  // what is there stays
  EXPECT_EQ(Generate(*engine, TokensRequest(SampleTokens(500, 3), 10)).status.code(),
            absl::StatusCode::kResourceExhausted);
  device_->LimitBytes(int64_t{1} << 30);
  EXPECT_EQ(Generate(*engine, request).tokens, expected);
  device_->LoseAfter(20);
  EXPECT_EQ(Generate(*engine, request).status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace recollect::engine
