// What a model without landmarks (RAT+) refuses: patterns beyond its checkpoint, retrieval, states
// beyond their budget.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/engine/ratplus_testing.h"
#include "tests/support/eventually.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(RatPlusEngineTest, APatternBeyondTheCheckpointIsRefusedNamingBoth) {
  auto engine = Make();
  SessionOptions options;
  options.dilation = 3;
  options.window = 7;
  options.initial = 9;
  const absl::Status status = engine->OpenSession(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("dilation is 3, the checkpoint is adapted to -1, 1, 4, 16, 64"),
                    HasSubstr("window is 7, the checkpoint is adapted to 0 and 8 to 512"),
                    HasSubstr("initial is 9, the checkpoint is adapted to 4 and 0 to 8")));
  // The flagship changes its dilation only.
  auto drt = MakeEngine();
  SessionOptions window;
  window.window = 64;
  EXPECT_THAT(std::string(drt->OpenSession(window).status().message()),
              HasSubstr("window is 64, the checkpoint is adapted to 127"));
}

TEST_F(RatPlusEngineTest, RetrievalIsRefusedNamingTheFamily) {
  auto engine = Make();
  const auto expect_family = [](const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(what), HasSubstr("family ratplus has no landmarks")));
  };
  SessionOptions random;
  random.random_chunks = true;
  expect_family(engine->OpenSession(random).status(), "random_chunks");
  expect_family(Retrieve(*engine, RetrieveOf({5})).status(), "");
  EmbedRequest embed;
  embed.text.tokens = {5};
  expect_family(Embed(*engine, embed).status(), "");
  EXPECT_TRUE(engine->ListDocuments("", 10)->empty());
  EXPECT_EQ(engine->DeleteDocument("whale").code(), absl::StatusCode::kNotFound);
}

// Sessions that have ended are freed in the background.
void WaitUntilFreed(const Engine& engine) {
  EXPECT_TRUE(Eventually([&] { return engine.stats().state_bytes == 0; }));
}

// A state without a span grows with its sequence; all of them together stay in a budget.
TEST_F(RatPlusEngineTest, StatesStayInTheirBudget) {
  TestOptions options = SmallOptions();
  const int64_t row_bytes = 2 * 32 * 4 * 3;  // keys and values, fp32, of every layer
  options.state_budget_bytes = 800 * row_bytes;
  options.prefill_slice_tokens = 64;
  auto engine = Make(options);
  GenerateRequest request = TokensRequest(SampleTokens(200, 1), 0);
  request.session_options.dilation = 1;
  {
    // Three tokens need what three tokens need, however many a step takes at a time.
    TestOptions tiny = options;
    tiny.state_budget_bytes = 20 * row_bytes;
    GenerateRequest three = TokensRequest(SampleTokens(3, 1), 1);
    three.session_options.dilation = 1;
    const absl::Status status = Generate(*Make(tiny), three).status;
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(Generate(*engine, request).status.ok());
  WaitUntilFreed(*engine);

  SessionOptions dense;
  dense.dilation = 1;
  const SessionId id = *engine->OpenSession(dense);
  const absl::Status status = Generate(*engine, TurnRequest(id, SampleTokens(2000, 2), 0)).status;
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               absl::StrCat("the budget is ", options.state_budget_bytes)));
  const EngineStats stats = engine->stats();
  EXPECT_GT(stats.state_bytes, 0);
  EXPECT_EQ(stats.state_budget_bytes, options.state_budget_bytes);
  ASSERT_TRUE(engine->CloseSession(id).ok());
  WaitUntilFreed(*engine);
  // A sparser pattern reads the same prompt within the budget.
  request.prompt.tokens = SampleTokens(2000, 2);
  request.session_options.dilation = 64;
  EXPECT_TRUE(Generate(*engine, request).status.ok());
}

TEST_F(RatPlusEngineTest, WithASpanAStateStopsGrowing) {
  model::ModelConfig config = TinyRatPlusConfig();
  config.local = model::LocalPattern{.window = 8, .dilation = 4, .initial = 2, .span = 64};
  model_ = LoadRatPlusForTest("span", config);
  TestOptions options = SmallOptions();
  options.state_budget_bytes = 400 << 10;  // without a span, 3000 positions take 560 KiB
  options.prefill_slice_tokens = options.ingest_slice_tokens = 64;
  auto engine = Make(options);
  const SessionId id = *engine->OpenSession({});
  std::vector<int32_t> past;
  for (const uint64_t seed : {1, 2}) {
    const std::vector<int32_t> prompt = SampleTokens(1500, seed);
    past.insert(past.end(), prompt.begin(), prompt.end());
    const Generated generated = Generate(*engine, TurnRequest(id, prompt, 20));
    ASSERT_TRUE(generated.status.ok()) << generated.status;
    ExpectGreedy(past, generated.tokens, config.local);
    past.insert(past.end(), generated.tokens.begin(), generated.tokens.end());
    EXPECT_LT(engine->stats().state_bytes, options.state_budget_bytes / 2);
  }
  ASSERT_TRUE(engine->CloseSession(id).ok());
  WaitUntilFreed(*engine);
  // A prefix is the same state.
  const auto ingested = IngestTokens(*engine, "past", past);
  ASSERT_TRUE(ingested.ok()) << ingested.status();
  GenerateRequest request = TokensRequest(SampleTokens(5, 3), 20);
  request.session_options.mounts = {"past"};
  const Generated generated = Generate(*engine, request);
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  past.insert(past.end(), request.prompt.tokens.begin(), request.prompt.tokens.end());
  ExpectGreedy(past, generated.tokens, config.local);
}

TEST_F(RatPlusEngineTest, AnEmptyPromptNeedsAPast) {
  auto engine = Make();
  EXPECT_EQ(Generate(*engine, TokensRequest({}, 5)).status.code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recollect::engine
