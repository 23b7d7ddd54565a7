// Sessions of the families that choose their mixers by layer: plain token sequences, as RAT+'s, and
// prefixes of them.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/engine/session/prefix_testing.h"
#include "tests/kernels/device/test_device.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Family {
  const char* name;
  model::ModelConfig (*config)();
  bool on_device = false;
};

class FamiliesEngineTest : public PrefixTest, public ::testing::WithParamInterface<Family> {
 protected:
  FamiliesEngineTest() {
    name_ = GetParam().name;
    model_ = LoadRatPlusForTest(name_, GetParam().config());
    if (GetParam().on_device) device_ = kernels::OpenTestDevice();
  }
  void SetUp() override {
    if (GetParam().on_device) RECOLLECT_SKIP_WITHOUT(device_);
  }
};

TEST_P(FamiliesEngineTest, TurnsOfASessionAreOneSequence) {
  auto engine = Make();
  const SessionId id = *engine->OpenSession({});
  std::vector<int32_t> past;
  for (int turn = 0; turn < 3; ++turn) {
    const std::vector<int32_t> prompt = SampleTokens(50 + 87 * turn, 20 + turn);
    const Generated generated = Generate(*engine, TurnRequest(id, prompt, 23));
    ASSERT_TRUE(generated.status.ok()) << generated.status;
    past.insert(past.end(), prompt.begin(), prompt.end());
    ExpectGreedy(past, generated.tokens, model_->config().local);
    past.insert(past.end(), generated.tokens.begin(), generated.tokens.end());
  }
}

TEST_P(FamiliesEngineTest, AnySliceAndBatchGiveTheSameTokens) {
  std::vector<std::vector<int32_t>> prompts, alone;
  auto engine = Make();
  for (int i = 0; i < 5; ++i) {
    prompts.push_back(SampleTokens(30 + 67 * i, 40 + i));
    alone.push_back(Generate(*engine, TokensRequest(prompts.back(), 40)).tokens);
    ASSERT_EQ(alone.back().size(), 40u);
  }
  for (const int64_t slice : {1, 7, 512}) {
    TestOptions options = SmallOptions();
    options.prefill_slice_tokens = slice;
    auto other = Make(options);
    std::vector<std::shared_ptr<Collector>> running;
    for (const std::vector<int32_t>& prompt : prompts) {
      running.push_back(std::make_shared<Collector>());
      other->Generate(TokensRequest(prompt, 40), running.back());
    }
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(running[i]->Wait().tokens, alone[i]) << "slice " << slice << " prompt " << i;
    }
  }
}

TEST_P(FamiliesEngineTest, APrefixGivesTheTokensOfThePrompt) {
  auto engine = Make();
  const std::vector<int32_t> tokens = SampleTokens(300, 8);
  const std::vector<int32_t> expected = Read(*engine, {}, tokens, 30);
  ASSERT_EQ(expected.size(), 30u);
  for (const int64_t split : {1, 63, 64, 129, 299, 300}) {
    const std::string id = absl::StrCat(split);
    const auto info = IngestTokens(*engine, id, Part(tokens, 0, split));
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(Generate(*engine, After(id, {}, Part(tokens, split, 300), 30)).tokens, expected)
        << "split at " << split;
  }
}

TEST_P(FamiliesEngineTest, PatternsAreRefused) {
  auto engine = Make();
  SessionOptions options;
  options.dilation = 3;
  options.window = 7;
  const auto names_both = AllOf(HasSubstr("dilation is 3, the checkpoint is adapted to"),
                                HasSubstr("window is 7, the checkpoint is adapted to"));
  for (const absl::Status& status : {engine->OpenSession(options).status(),
                                     IngestTokens(*engine, "doc", {2, 3}, options).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), names_both);
  }
}

// What grows with a sequence is counted before a step runs.
TEST_P(FamiliesEngineTest, StatesStayInTheirBudget) {
  TestOptions options = SmallOptions();
  options.state_budget_bytes = 200 << 10;
  options.prefill_slice_tokens = 64;
  auto engine = Make(options);
  EXPECT_THAT(Generate(*engine, TokensRequest(SampleTokens(8000, 2), 1)).status,
              StatusIs(absl::StatusCode::kResourceExhausted, "the budget is 204800"));
}

INSTANTIATE_TEST_SUITE_P(Families, FamiliesEngineTest,
                         ::testing::Values(Family{"RatSwa", TinyRatSwaConfig},
                                           Family{"Rattention", TinyRattentionConfig},
                                           Family{"RatSwaOnADevice", TinyRatSwaConfig, true},
                                           Family{"RattentionOnADevice", TinyRattentionConfig,
                                                  true}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace recollect::engine
