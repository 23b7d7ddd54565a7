// Sessions of a model without landmarks (RAT+): plain token sequences, no blocks, no memory; each
// under the pattern it asked for.
#include <cmath>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "tests/engine/ratplus_testing.h"

namespace recollect::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(RatPlusEngineTest, GenerationEqualsTheWholeSequenceInOneGo) {
  auto engine = Make();
  for (const int64_t length : {1, 5, 63, 64, 65, 400}) {
    for (const bool flush : {true, false}) {
      SCOPED_TRACE(testing::Message() << length << " tokens, flush " << flush);
      const std::vector<int32_t> prompt = SampleTokens(length, 3);
      GenerateRequest request = TokensRequest(prompt, 70);
      request.flush = flush;
      const Generated generated = Generate(*engine, request);
      ASSERT_TRUE(generated.status.ok()) << generated.status;
      ASSERT_EQ(generated.tokens.size(), 70u);
      EXPECT_TRUE(generated.retrievals.empty());
      ExpectGreedy(prompt, generated.tokens, default_);
    }
  }
}

TEST_F(RatPlusEngineTest, APatternOfTheRequestIsTheOneThatRuns) {
  auto engine = Make();
  const std::vector<int32_t> prompt = SampleTokens(300, 4);
  std::vector<std::vector<int32_t>> answers;
  struct Asked {
    std::optional<int64_t> dilation, window, initial;
  };
  for (const Asked& asked :
       {Asked{1, {}, {}}, Asked{64, {}, 0}, Asked{-1, 16, {}}, Asked{{}, 100, 8}, Asked{}}) {
    GenerateRequest request = TokensRequest(prompt, 40);
    request.session_options.dilation = asked.dilation;
    request.session_options.window = asked.window;
    request.session_options.initial = asked.initial;
    const Generated generated = Generate(*engine, request);
    ASSERT_TRUE(generated.status.ok()) << generated.status;
    model::LocalPattern pattern = *default_.everywhere();
    pattern.dilation = asked.dilation.value_or(pattern.dilation);
    pattern.window = asked.window.value_or(pattern.window);
    pattern.initial = asked.initial.value_or(pattern.initial);
    ExpectGreedy(prompt, generated.tokens, pattern);
    answers.push_back(generated.tokens);
  }
  EXPECT_NE(answers[0], answers[1]);
}

TEST_F(RatPlusEngineTest, AHybridOfTheRequestIsTheOneThatRuns) {
  auto engine = Make();
  const std::vector<int32_t> prompt = SampleTokens(300, 8);
  GenerateRequest request = TokensRequest(prompt, 40);
  request.session_options.layer_dilations = {{4}, {1, 64}, {-1}};
  request.session_options.layer_windows = {{0}, {0}, {40, 0}};
  const Generated generated = Generate(*engine, request);
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  const auto pattern = [](int64_t window, int64_t dilation) {
    return model::LocalPattern{window, dilation, 4, model::kUnboundedSpan};
  };
  ExpectGreedy(
      prompt, generated.tokens,
      model::LocalPatterns(
          {{pattern(0, 4)}, {pattern(0, 1), pattern(0, 64)}, {pattern(40, -1), pattern(0, -1)}}));

  const auto refusal = [&](const SessionOptions& options) {
    const absl::Status status = engine->OpenSession(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  SessionOptions options;
  options.layer_dilations = {{4}, {1}};
  EXPECT_THAT(refusal(options),
              HasSubstr("layer_dilations: 2 entries, expected one for each of 3 layers"));
  options.layer_dilations = {{4}, {1, 1, 1}, {4}};
  EXPECT_THAT(refusal(options),
              HasSubstr("3 numbers for layer 1, expected 1 or one for each of 2 heads"));
  options.layer_dilations = {{4}, {1, 3}, {4}};
  EXPECT_THAT(refusal(options),
              HasSubstr("dilation is 3, the checkpoint is adapted to -1, 1, 4, 16, 64"));
  options.dilation = 4;
  EXPECT_THAT(refusal(options), HasSubstr("dilation and layer_dilations: both set"));
}

TEST_F(RatPlusEngineTest, ContextAndBlocksOfTheRequestAreThoseThatRun) {
  auto engine = Make();
  const std::vector<int32_t> prompt = SampleTokens(300, 5);
  GenerateRequest request = TokensRequest(prompt, 40);
  request.session_options.context = 1000;
  const Generated stretched = Generate(*engine, request);
  ASSERT_TRUE(stretched.status.ok()) << stretched.status;
  ExpectGreedy(prompt, stretched.tokens, default_.WithContext(1000));
  request.session_options.top_k_blocks = 3;
  request.session_options.dilation = -1;
  const Generated chosen = Generate(*engine, request);
  ASSERT_TRUE(chosen.status.ok()) << chosen.status;
  ExpectGreedy(prompt, chosen.tokens,
               default_.With(&model::LocalPattern::dilation, -1)
                   .WithContext(1000)
                   .WithBlocks(model_->config().top_k.With(3)));
  EXPECT_NE(chosen.tokens, stretched.tokens);

  request.session_options.context = 2000;
  request.session_options.top_k_blocks = 9;
  const absl::Status status = Generate(*engine, request).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("context is 2000, the checkpoint stretches to 256 to 1024"),
                    HasSubstr("top_k_blocks is 9, the checkpoint allows 0 to 8")));
  SessionOptions flagship;
  flagship.context = 5000;
  flagship.top_k_blocks = 1;
  EXPECT_THAT(std::string(MakeEngine()->OpenSession(flagship).status().message()),
              AllOf(HasSubstr("context is 5000, the checkpoint has no context to stretch"),
                    HasSubstr("top_k_blocks is 1, the checkpoint allows 0")));
}

TEST_F(RatPlusEngineTest, TurnsOfASessionAreOneSequence) {
  auto engine = Make();
  SessionOptions options;
  options.dilation = 4;
  const SessionId id = *engine->OpenSession(options);
  std::vector<int32_t> past;
  for (int turn = 0; turn < 4; ++turn) {
    const std::vector<int32_t> prompt = SampleTokens(50 + 17 * turn, 20 + turn);
    const Generated generated = Generate(*engine, TurnRequest(id, prompt, 23));
    ASSERT_TRUE(generated.status.ok()) << generated.status;
    past.insert(past.end(), prompt.begin(), prompt.end());
    ExpectGreedy(past, generated.tokens, default_.With(&model::LocalPattern::dilation, 4));
    past.insert(past.end(), generated.tokens.begin(), generated.tokens.end());
  }
  // The token that was sampled last has not been read.
  EXPECT_EQ(engine->GetSession(id)->positions, static_cast<int64_t>(past.size()) - 1);
  EXPECT_EQ(engine->GetSession(id)->own_chunks, 0);
  GenerateRequest other = TurnRequest(id, {5}, 1);
  other.session_options.window = 8;
  EXPECT_EQ(Generate(*engine, other).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RatPlusEngineTest, AnySliceAndBatchGiveTheSameTokens) {
  struct Job {
    std::vector<int32_t> prompt;
    SessionOptions options;
    std::vector<int32_t> alone;
  };
  std::vector<Job> jobs(6);
  auto engine = Make();
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].prompt = SampleTokens(30 + 67 * static_cast<int64_t>(i), 40 + i);
    if (i % 3 == 1) jobs[i].options.dilation = 1;
    if (i % 3 == 2) jobs[i].options.window = 33;
    if (i == 4) jobs[i].options.context = 700;
    if (i == 5) jobs[i].options.top_k_blocks = 4;
    GenerateRequest request = TokensRequest(jobs[i].prompt, 50);
    request.session_options = jobs[i].options;
    jobs[i].alone = Generate(*engine, request).tokens;
    ASSERT_EQ(jobs[i].alone.size(), 50u);
  }
  for (size_t i = 1; i < jobs.size(); ++i) EXPECT_NE(jobs[i].alone, jobs[0].alone);
  for (const int64_t slice : {1, 7, 64, 512}) {
    TestOptions options = SmallOptions();
    options.prefill_slice_tokens = slice;
    auto other = Make(options);
    std::vector<std::shared_ptr<Collector>> running;
    for (const Job& job : jobs) {
      GenerateRequest request = TokensRequest(job.prompt, 50);
      request.session_options = job.options;
      running.push_back(std::make_shared<Collector>());
      other->Generate(request, running.back());
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_EQ(running[i]->Wait().tokens, jobs[i].alone) << "slice " << slice << " job " << i;
    }
  }
}

TEST_F(RatPlusEngineTest, PatternsByLayerAndHeadAreTheDefaultOfTheirCheckpoint) {
  const auto pattern = [](int64_t window, int64_t dilation) {
    return model::LocalPattern{window, dilation, 0, model::kUnboundedSpan};
  };
  model::ModelConfig config = TinyRatPlusConfig();
  config.local =
      model::LocalPatterns({{pattern(0, 4)}, {pattern(0, 1), pattern(5, 16)}, {pattern(40, -1)}});
  model_ = LoadRatPlusForTest("hybrid", config);
  auto engine = Make();
  const std::vector<int32_t> prompt = SampleTokens(200, 9);
  const Generated generated = Generate(*engine, TokensRequest(prompt, 30));
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  ExpectGreedy(prompt, generated.tokens, config.local);
}

TEST_F(RatPlusEngineTest, ScoresAreThoseOfTheWholeSequence) {
  auto engine = Make();
  const std::vector<int32_t> tokens = SampleTokens(300, 7);
  ScoreRequest request = ScoreOf(tokens);
  request.flush_after = {10, 100};  // without effect
  const auto result = Score(*engine, request);
  ASSERT_TRUE(result.ok()) << result.status();
  const SessionId session = engine->OpenSession({}).value();
  const ScoreResult pieces = ScorePieces(*engine, session, tokens, {1, 99, 1, 199});
  EXPECT_EQ(pieces.logprobs, result->logprobs);
  EXPECT_EQ(pieces.argmax, result->argmax);
  const std::vector<float> logits = RunTokens(*model_, default_, tokens);
  const int64_t vocab = model_->config().vocab_size;
  EXPECT_EQ(result->logprobs[0], 0);
  EXPECT_EQ(result->argmax[0], -1);
  EXPECT_EQ(result->argmax_logprobs[0], 0);
  for (size_t i = 1; i < tokens.size(); ++i) {
    const auto row = std::span(logits).subspan((i - 1) * vocab, vocab);
    EXPECT_EQ(result->argmax[i], Argmax(model_->config(), row));
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    EXPECT_NEAR(result->logprobs[i], row[tokens[i]] - std::log(sum), 1e-4);
    EXPECT_NEAR(result->argmax_logprobs[i], row[result->argmax[i]] - std::log(sum), 1e-4);
  }
}

}  // namespace
}  // namespace recollect::engine
