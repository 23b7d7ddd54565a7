// What sampling options do to a generation: seeds, log-probabilities, DRY, stop strings.
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "tests/engine/engine_testing.h"

namespace recollect::engine {
namespace {

using ::testing::IsEmpty;

TEST(SamplingTest, SeedsRepeatAndDiffer) {
  auto engine = MakeEngine();
  GenerateRequest request = TokensRequest(SampleTokens(30, 70), 60);
  request.sampling = {.temperature = 1.5, .top_p = 0.95, .top_k = 100, .seed = 7};
  const Generated once = Generate(*engine, request);
  EXPECT_EQ(Generate(*engine, request).tokens, once.tokens);
  request.sampling.seed = 8;
  EXPECT_NE(Generate(*engine, request).tokens, once.tokens);
}

// Whatever is drawn: the model's own, of the same bits. The tokens stay what they were.
TEST(SamplingTest, LogprobsAreThoseOfScoring) {
  auto engine = MakeEngine();
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(900, 1)).ok());
  GenerateRequest request = TokensRequest(SampleTokens(100, 70), 80, {"doc"});
  for (const double dry : {0.0, 2.0}) {
    request.sampling = {.temperature = 1.5, .top_p = 0.95, .seed = 7, .dry_multiplier = dry};
    request.logprobs = std::nullopt;
    const Generated silent = Generate(*engine, request);
    EXPECT_THAT(silent.logprobs, IsEmpty());
    request.logprobs = 4;
    const Generated generated = Generate(*engine, request);
    ASSERT_EQ(generated.tokens, silent.tokens);
    ASSERT_EQ(generated.logprobs.size(), 80u);
    ScoreRequest score;
    score.session_options = request.session_options;
    score.prompt.tokens = request.prompt.tokens;
    score.prompt.tokens.insert(score.prompt.tokens.end(), generated.tokens.begin(),
                               generated.tokens.end());
    score.flush_after = {100};
    score.top_logprobs = 4;
    const auto scored = Score(*engine, score);
    ASSERT_TRUE(scored.ok()) << scored.status();
    for (size_t i = 0; i < 80; ++i) {
      const ChosenLogprob& token = generated.logprobs[i];
      EXPECT_EQ(token.chosen.token, generated.tokens[i]);
      EXPECT_EQ(token.chosen.logprob, scored->logprobs[100 + i]) << i;
      ASSERT_EQ(token.top.size(), 4u);
      for (size_t n = 0; n < 4; ++n) {
        EXPECT_EQ(token.top[n].token, scored->top[4 * (100 + i) + n].token) << i;
        EXPECT_EQ(token.top[n].logprob, scored->top[4 * (100 + i) + n].logprob) << i;
      }
    }
  }
}

// The tiny model goes round in circles soon.
TEST(SamplingTest, DryChangesWhatRepeatsAndNothingBefore) {
  auto engine = MakeEngine();
  GenerateRequest request = TokensRequest(SampleTokens(30, 70), 200);
  const std::vector<int32_t> plain = Generate(*engine, request).tokens;
  request.sampling.dry_multiplier = 100;
  const std::vector<int32_t> dry = Generate(*engine, request).tokens;
  const auto same = std::mismatch(plain.begin(), plain.end(), dry.begin()).first - plain.begin();
  ASSERT_LT(same, 200) << "the model repeats nothing";
  const auto repeats = [](const std::vector<int32_t>& tokens, int64_t count) {
    std::set<std::vector<int32_t>> seen;
    for (int64_t i = 0; i + 3 <= count; ++i) {
      if (!seen.emplace(tokens.begin() + i, tokens.begin() + i + 3).second) return true;
    }
    return false;
  };
  EXPECT_TRUE(repeats(plain, same + 1));
  EXPECT_FALSE(repeats(dry, 200)) << "three tokens that stood there before";
  EXPECT_EQ(Generate(*engine, request).tokens, dry);
}

TEST(SamplingTest, ATextThatOnlyRepeatsItselfIsStoppedWhereThatIsAskedFor) {
  auto engine = MakeEngine();
  GenerateRequest request = TokensRequest(SampleTokens(30, 70), 1500);
  const Generated plain = Generate(*engine, request);
  EXPECT_EQ(plain.reason, FinishReason::kMaxTokens);
  EXPECT_EQ(plain.usage.repeats_from, 0);
  request.stop_repetition = true;
  const Generated stopped = Generate(*engine, request);
  ASSERT_EQ(stopped.reason, FinishReason::kRepetition);
  const int64_t count = std::ssize(stopped.tokens);
  ASSERT_LT(count, 1500);
  EXPECT_EQ(stopped.usage.generated_tokens, count);
  EXPECT_EQ(stopped.tokens, std::vector(plain.tokens.begin(), plain.tokens.begin() + count));
  const int64_t kept = stopped.usage.repeats_from;
  EXPECT_GT(kept, 0);
  EXPECT_GT(std::ssize(stopped.text), kept);
  // The same where it was broken off, even after its last token.
  for (const int64_t before : {count / 2, count}) {
    request.generated.assign(stopped.tokens.begin(), stopped.tokens.begin() + before);
    const Generated rest = Generate(*engine, request);
    EXPECT_EQ(rest.reason, FinishReason::kRepetition);
    EXPECT_EQ(std::ssize(rest.tokens), count - before);
    EXPECT_EQ(rest.usage.repeats_from, kept);
  }
  request.generated.push_back(plain.tokens[static_cast<size_t>(count)]);
  EXPECT_EQ(Generate(*engine, request).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(SamplingTest, StopsBeforeAStopString) {
  auto engine = MakeEngine();
  GenerateRequest request = TokensRequest(SampleTokens(30, 71), 60);
  request.sampling = {.temperature = 1.0, .seed = 3};
  const Generated whole = Generate(*engine, request);
  ASSERT_GT(whole.text.size(), 12u);
  size_t at = whole.text.size() / 2;  // at the start of a character
  while ((static_cast<uint8_t>(whole.text[at]) & 0xc0) == 0x80) ++at;
  size_t end = at + 1;
  while ((static_cast<uint8_t>(whole.text[end]) & 0xc0) == 0x80) ++end;
  request.stop = {whole.text.substr(at, end - at)};
  const Generated stopped = Generate(*engine, request);
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(request.stop[0])));
}

}  // namespace
}  // namespace recollect::engine
