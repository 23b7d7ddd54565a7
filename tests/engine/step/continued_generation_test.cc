// A generation that was broken off goes on in another engine: GenerateRequest::generated.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ContinuedGenerationTest, GoesOnWhereAnotherServerWasBrokenOff) {
  auto engine = MakeEngine();
  auto other = MakeEngine();
  const std::vector<int32_t> document = SampleTokens(900, 21);
  ASSERT_TRUE(IngestTokens(*engine, "doc", document).ok());
  ASSERT_TRUE(IngestTokens(*other, "doc", document).ok());
  for (const bool flush : {true, false}) {
    for (const double dry : {0.0, 2.0}) {
      SCOPED_TRACE(testing::Message() << "flush " << flush << ", DRY " << dry);
      GenerateRequest request = TokensRequest(SampleTokens(70, 22), 150, {"doc"});
      request.flush = flush;
      request.sampling = {.temperature = 1.2, .top_p = 0.9, .seed = 7, .dry_multiplier = dry};
      const Generated whole = Generate(*engine, request);
      ASSERT_TRUE(whole.status.ok()) << whole.status;
      ASSERT_EQ(whole.tokens.size(), 150u);
      for (const int64_t count : {1, 2, 55, 56, 57, 63, 118, 149, 150}) {
        SCOPED_TRACE(testing::Message() << count << " tokens before");
        GenerateRequest rest = request;
        rest.generated.assign(whole.tokens.begin(), whole.tokens.begin() + count);
        const Generated after = Generate(*other, rest);
        ASSERT_TRUE(after.status.ok()) << after.status;
        EXPECT_EQ(after.tokens, std::vector(whole.tokens.begin() + count, whole.tokens.end()));
        EXPECT_EQ(after.text, whole.text);  // the caller said that it has none
        EXPECT_EQ(after.usage.generated_tokens, 150);
        EXPECT_EQ(after.usage.prompt_tokens, whole.usage.prompt_tokens);
        rest.generated_text = "no such text";
        EXPECT_THAT(Generate(*other, rest).status,
                    StatusIs(absl::StatusCode::kFailedPrecondition, "generated.text: 12 bytes"));
      }
    }
  }
}

// The text of a cut answer and of what follows is that of a whole one, at each token: held-back
// text, too.
TEST(ContinuedGenerationTest, TextGoesOnWhereItWasBrokenOff) {
  auto engine = MakeEngine();
  GenerateRequest request = TokensRequest(SampleTokens(40, 23), 90);
  request.sampling = {.temperature = 1.5, .seed = 3};
  const Generated free = Generate(*engine, request);
  ASSERT_GT(free.text.size(), 40u);
  // A stop in the middle; one that is never whole holds text back.
  const auto ascii = [&](size_t from, size_t count) {
    const auto whole = [&](size_t at) {
      return std::all_of(free.text.begin() + static_cast<int64_t>(at),
                         free.text.begin() + static_cast<int64_t>(at + count),
                         [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    };
    while (from + count < free.text.size() && !whole(from)) ++from;
    return free.text.substr(from, count);
  };
  request.stop = {ascii(free.text.size() / 2, 3), ascii(8, 2) + "\x01"};
  struct Cut {
    std::vector<int32_t> tokens;
    std::string text;
  };
  std::vector<Cut> cuts;
  struct Watch final : GenerateEvents {
    void OnTokens(const std::vector<int32_t>& ids, const std::string& more) override {
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      text += more;
      cuts.push_back({tokens, text});
    }
    void OnRetrieval(const Retrieval&) override {}
    void OnDone(FinishReason, const Usage&) override { ended.Notify(); }
    void OnError(const absl::Status&) override { ended.Notify(); }
    std::vector<int32_t> tokens;
    std::string text;
    std::vector<Cut> cuts;
    absl::Notification ended;
  };
  const auto watch = std::make_shared<Watch>();
  engine->Generate(request, watch);
  watch->ended.WaitForNotification();
  const Generated whole = Generate(*engine, request);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  ASSERT_EQ(whole.reason, FinishReason::kStop);
  EXPECT_EQ(watch->text, whole.text);
  ASSERT_GT(watch->cuts.size(), 5u);
  for (const Cut& cut : watch->cuts) {
    SCOPED_TRACE(testing::Message() << cut.tokens.size() << " tokens before");
    GenerateRequest rest = request;
    rest.generated = cut.tokens;
    rest.generated_text = cut.text;
    const Generated after = Generate(*engine, rest);
    ASSERT_TRUE(after.status.ok()) << after.status;
    EXPECT_EQ(cut.text + after.text, whole.text);
    EXPECT_EQ(after.reason, FinishReason::kStop);
    std::vector<int32_t> all = cut.tokens;
    all.insert(all.end(), after.tokens.begin(), after.tokens.end());
    EXPECT_EQ(all, whole.tokens);
  }
  request.generated = whole.tokens;
  request.generated.push_back(whole.tokens[0]);
  EXPECT_THAT(std::string(Generate(*engine, request).status.message()), HasSubstr("after a stop"));
  request.max_tokens = 3;
  EXPECT_THAT(Generate(*engine, request).status,
              StatusIs(absl::StatusCode::kInvalidArgument, "generated.ids"));
  request = TokensRequest(SampleTokens(40, 23), 90);
  request.generated = {-4};
  EXPECT_THAT(std::string(Generate(*engine, request).status.message()),
              HasSubstr("generated.ids: token 0: id -4 is unknown"));
}

// A session's turns, given to another engine as they ended, make the same session there.
TEST(ContinuedGenerationTest, ASessionIsReopenedByItsTurns) {
  auto engine = MakeEngine();
  auto other = MakeEngine();
  const std::vector<int32_t> document = SampleTokens(900, 21);
  ASSERT_TRUE(IngestTokens(*engine, "doc", document).ok());
  ASSERT_TRUE(IngestTokens(*other, "doc", document).ok());
  const SessionId here = *engine->OpenSession({.mounts = {"doc"}});
  const SessionId there = *other->OpenSession({.mounts = {"doc"}});
  EXPECT_NE(here, there);  // no id of another process names a session
  for (int turn = 0; turn < 5; ++turn) {
    GenerateRequest request = TokensRequest(SampleTokens(turn == 3 ? 0 : 20 + 21 * turn, 50 + turn),
                                            turn == 2 ? 0 : 30 + turn * 33);
    request.flush = turn % 2 == 0;
    request.sampling = {.temperature = 0.7, .seed = 11};
    request.session = here;
    const Generated said = Generate(*engine, request);
    ASSERT_EQ(said.status.ok(), turn != 3 || request.flush) << said.status;
    if (!said.status.ok()) continue;
    request.session = there;
    request.generated = said.tokens;
    request.generated_text = said.text;
    const Generated again = Generate(*other, request);
    ASSERT_TRUE(again.status.ok()) << again.status;
    EXPECT_THAT(again.tokens, IsEmpty());
    EXPECT_EQ(again.text, "");
    EXPECT_EQ(again.reason, said.reason);
  }
  // The last token waits in both, and a landmark may.
  GenerateRequest request = TurnRequest(here, {}, 100);
  const Generated on = Generate(*engine, request);
  request.session = there;
  EXPECT_EQ(Generate(*other, request).tokens, on.tokens);
  EXPECT_EQ(other->GetSession(there)->positions, engine->GetSession(here)->positions);
}

}  // namespace
}  // namespace recollect::engine
