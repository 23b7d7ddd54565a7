// What an earlier request has read is not read again, and answers are the same with it and without.

#include <memory>
#include <vector>

#include "engine/backend/device/device_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/engine/places.h"
#include "tests/kernels/device/host_device.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

class PromptCacheTest : public ::testing::TestWithParam<Place> {
 protected:
  static std::unique_ptr<EngineImpl> Make(int64_t cache_bytes = 1 << 20,
                                          int64_t state_bytes = 64 << 20) {
    TestOptions options = SmallOptions();
    options.prompt_cache_bytes = cache_bytes;
    options.state_budget_bytes = state_bytes;
    if (GetParam() == Place::kDevice) {
      options.backend =
          DeviceBackend::Create(std::make_shared<kernels::HostDevice>(), *LlamaModelForTest())
              .value();
    }
    return MakeEngine(options, nullptr, LlamaModelForTest());
  }

  static std::vector<int32_t> Tokens(int64_t count, int32_t first) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(100 + (first + 7 * i) % 1000);
    return tokens;
  }

  static Generated Ask(Engine& engine, const std::vector<int32_t>& prompt,
                       std::shared_ptr<access::Account> account = nullptr) {
    GenerateRequest request = TokensRequest(prompt, 8);
    request.account = std::move(account);
    Generated generated = Generate(engine, request);
    EXPECT_TRUE(generated.status.ok()) << generated.status;
    return generated;
  }

  // Of an engine that keeps nothing.
  static std::vector<int32_t> Expected(const std::vector<int32_t>& prompt) {
    return Ask(*Make(0), prompt).tokens;
  }
};

TEST_P(PromptCacheTest, NextTurnReadsOnlyWhatIsNew) {
  const auto engine = Make();
  std::vector<int32_t> prompt = Tokens(40, 0);
  const Generated first = Ask(*engine, prompt);
  EXPECT_EQ(first.usage.cached_tokens, 0);
  prompt.insert(prompt.end(), first.tokens.begin(), first.tokens.end());
  for (const int32_t token : Tokens(20, 5)) prompt.push_back(token);
  const Generated second = Ask(*engine, prompt);
  // All of the first turn but the last token of its answer, which was not run.
  EXPECT_EQ(second.usage.cached_tokens, 40 + 8 - 1);
  EXPECT_EQ(second.usage.prompt_tokens, 68);
  EXPECT_EQ(second.tokens, Expected(prompt));
  EXPECT_EQ(engine->stats().cached_prompt_tokens, 47);
  EXPECT_EQ(engine->stats().cached_prompts, 1);
}

TEST_P(PromptCacheTest, AnotherQuestionBehindTheSameTextGoesOnFromTheText) {
  const auto engine = Make();
  const std::vector<int32_t> text = Tokens(60, 0);
  std::vector<int32_t> one = text, other = text;
  for (const int32_t token : Tokens(10, 3)) one.push_back(token);
  for (const int32_t token : Tokens(12, 9)) other.push_back(token);
  Ask(*engine, one);
  const Generated second = Ask(*engine, other);
  EXPECT_EQ(second.usage.cached_tokens, 60);
  EXPECT_EQ(second.tokens, Expected(other));
  // The same once more: its last token has to run, to predict the next one.
  const Generated again = Ask(*engine, other);
  EXPECT_EQ(again.usage.cached_tokens, std::ssize(other) - 1);
  EXPECT_EQ(again.tokens, second.tokens);
}

TEST_P(PromptCacheTest, ShortCommonBeginningTakesNobodysPlace) {
  const auto engine = Make();
  std::vector<int32_t> one = Tokens(20, 0), other = one;
  for (const int32_t token : Tokens(60, 3)) one.push_back(token);
  for (const int32_t token : Tokens(60, 9)) other.push_back(token);
  Ask(*engine, one);
  EXPECT_EQ(Ask(*engine, other).usage.cached_tokens, 0);
  EXPECT_EQ(Ask(*engine, one).usage.cached_tokens, std::ssize(one) - 1);
}

TEST_P(PromptCacheTest, AccountsDoNotShare) {
  const auto engine = Make();
  const std::vector<int32_t> prompt = Tokens(40, 0);
  const auto a = std::make_shared<access::Account>(access::Key{});
  const auto b = std::make_shared<access::Account>(access::Key{});
  Ask(*engine, prompt, a);
  EXPECT_EQ(Ask(*engine, prompt, b).usage.cached_tokens, 0);
  EXPECT_EQ(Ask(*engine, prompt, a).usage.cached_tokens, 39);
}

TEST_P(PromptCacheTest, KeepsNoMoreThanItsBytes) {
  const auto engine = Make(/*cache_bytes=*/100 << 10);
  for (int i = 0; i < 20; ++i) Ask(*engine, Tokens(60, 50 * i + i));
  EXPECT_LE(engine->stats().prompt_cache_bytes, 100 << 10);
  EXPECT_GT(engine->stats().cached_prompts, 0);
  EXPECT_LT(engine->stats().cached_prompts, 20);
}

TEST_P(PromptCacheTest, GivesWayToWhatNeedsTheStateBudget) {
  // Room for one sequence of the whole context, which a kept one must leave.
  const int64_t one = StateGrowth(LlamaModelForTest()->config(), 128);
  const auto engine = Make(/*cache_bytes=*/1 << 30, one + one / 4);
  for (int i = 0; i < 4; ++i) Ask(*engine, Tokens(100, 60 * i + i));
  EXPECT_LE(engine->stats().state_bytes, engine->stats().state_budget_bytes);
}

INSTANTIATE_TEST_SUITE_P(Places, PromptCacheTest, kPlaces, NameOfPlace);

}  // namespace
}  // namespace recollect::engine
