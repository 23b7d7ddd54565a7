// A memory adapter in sessions and caches: whoever has read a beginning before, the answer is that
// to the whole.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "model/text/tokenizer.h"
#include "tests/engine/adapter_testing.h"

namespace recollect::engine {
namespace {

// The answer to a sequence as a whole, whoever has read how much of it before.
TEST_P(AdapterTest, TurnsOfASessionAnswerAsOnePromptDoes) {
  auto engine = MakeWithDocument();
  for (const int64_t first_length : {5, 63, 100, 170}) {
    const SessionId session = *engine->OpenSession({.mounts = {"d"}});
    std::vector<int32_t> all = Tokens(first_length, 1);
    GenerateRequest turn = TurnRequest(session, all, 9);
    const Generated first = Generate(*engine, turn);
    ASSERT_THAT(first.status, IsOk());
    EXPECT_EQ(first.tokens, Generate(*engine, TokensRequest(all, 9, {"d"})).tokens);
    for (const int64_t next_length : {3, 80}) {
      all.insert(all.end(), first.tokens.begin(), first.tokens.end());
      const std::vector<int32_t> next = Tokens(next_length, 7);
      all.insert(all.end(), next.begin(), next.end());
      turn = TurnRequest(session, next, 9);
      const Generated second = Generate(*engine, turn);
      ASSERT_THAT(second.status, IsOk());
      EXPECT_EQ(second.tokens, Generate(*engine, TokensRequest(all, 9, {"d"})).tokens)
          << first_length << " then " << next_length;
      if (second.tokens != first.tokens) break;  // `all` would need them
    }
  }
}

TEST_P(AdapterTest, WhatWasReadBeforeChangesNoAnswer) {
  TestOptions keeps_nothing = SmallOptions();
  keeps_nothing.prompt_cache_bytes = 0;
  auto fresh = MakeWithDocument(keeps_nothing), engine = MakeWithDocument();
  std::vector<int32_t> prompt = Tokens(150, 3);
  for (int turn = 0; turn < 3; ++turn) {
    for (const std::vector<std::string>& mounts : {std::vector<std::string>{"d"}, {}}) {
      const Generated here = Generate(*engine, TokensRequest(prompt, 9, mounts));
      ASSERT_THAT(here.status, IsOk());
      EXPECT_EQ(here.tokens, Generate(*fresh, TokensRequest(prompt, 9, mounts)).tokens) << turn;
      if (!mounts.empty()) continue;
      prompt.insert(prompt.end(), here.tokens.begin(), here.tokens.end());
      const std::vector<int32_t> next = Tokens(20 + 50 * turn, turn);
      prompt.insert(prompt.end(), next.begin(), next.end());
    }
  }
  EXPECT_GT(engine->stats().cached_prompt_tokens, 0);
}

TEST_P(AdapterTest, RequestsSideBySideGetTheAnswersThatTheyGetAlone) {
  auto engine = MakeWithDocument();
  ASSERT_THAT(IngestTokens(*engine, "e", Tokens(500, 11)), IsOk());
  const std::vector<std::vector<std::string>> mounts = {{"d"}, {"e"}, {"d", "e"}, {"e", "d"}, {}};
  std::vector<GenerateRequest> requests;
  std::vector<std::vector<int32_t>> alone;
  for (int32_t i = 0; i < 15; ++i) {
    requests.push_back(TokensRequest(Tokens(8 + 17 * i, i), 20, mounts[i % mounts.size()]));
    alone.push_back(Generate(*engine, requests.back()).tokens);
  }
  std::vector<std::shared_ptr<Collector>> collectors;
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (const GenerateRequest& request : requests) {
    collectors.push_back(std::make_shared<Collector>());
    handles.push_back(engine->Generate(request, collectors.back()));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const Generated& beside = collectors[i]->Wait();
    ASSERT_THAT(beside.status, IsOk());
    EXPECT_EQ(beside.tokens, alone[i]) << i;
  }
}

TEST_P(AdapterTest, AnAnswerThatWasBrokenOffGoesOn) {
  auto engine = MakeWithDocument();
  const GenerateRequest request = Ask(golden_.Ids("prompt"));
  const std::vector<int32_t> whole = Generate(*engine, request).tokens;
  for (const int64_t said : {1, 9, 31}) {
    GenerateRequest rest = request;
    rest.generated.assign(whole.begin(), whole.begin() + said);
    for (const int32_t token : rest.generated) {
      rest.generated_text += engine->model().tokenizer()->TokenBytes(token);
    }
    if (model::FindInvalidUtf8(rest.generated_text, /*allow_partial_end=*/false) >= 0) {
      rest.generated_text.clear();
    }
    const Generated further = Generate(*MakeWithDocument(), rest);
    ASSERT_THAT(further.status, IsOk());
    EXPECT_EQ(further.tokens, std::vector<int32_t>(whole.begin() + said, whole.end())) << said;
  }
}

// What was sampled and not run is not lost where a later request comes too late to run.
TEST_P(AdapterTest, ATurnThatIsTooLateLeavesTheSessionWhole) {
  auto engine = MakeWithDocument();
  const SessionId session = *engine->OpenSession({.mounts = {"d"}});
  GenerateRequest turn = TurnRequest(session, Tokens(200, 1), 9);
  const Generated first = Generate(*engine, turn);
  ASSERT_THAT(first.status, IsOk());
  GenerateRequest late = TurnRequest(session, Tokens(40, 2), 9);
  late.deadline = absl::InfinitePast();
  EXPECT_THAT(Generate(*engine, late).status, StatusIs(absl::StatusCode::kDeadlineExceeded, ""));
  turn = TurnRequest(session, Tokens(30, 5), 9);
  std::vector<int32_t> all = Tokens(200, 1);
  all.insert(all.end(), first.tokens.begin(), first.tokens.end());
  const std::vector<int32_t> next = Tokens(30, 5);
  all.insert(all.end(), next.begin(), next.end());
  EXPECT_EQ(Generate(*engine, turn).tokens, Generate(*engine, TokensRequest(all, 9, {"d"})).tokens);
}

TEST_P(AdapterTest, TokensAreTheSameFromEveryTier) {
  auto engine = MakeWithDocument();
  const std::vector<int32_t> expected = Generate(*engine, Ask(golden_.Ids("prompt"))).tokens;
  engine->tiers_for_test().DropMemory();
  EXPECT_EQ(Generate(*engine, Ask(golden_.Ids("prompt"))).tokens, expected);
  engine->tiers_for_test().Drop();
  EXPECT_EQ(Generate(*engine, Ask(golden_.Ids("prompt"))).tokens, expected);
  TestOptions small = SmallOptions();
  small.memory_budget_bytes = small.chunk_states_budget_bytes = 0;
  EXPECT_EQ(Generate(*MakeWithDocument(small), Ask(golden_.Ids("prompt"))).tokens, expected);
}

}  // namespace
}  // namespace recollect::engine
