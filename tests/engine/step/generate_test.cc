// Generation against the model run over the whole sequence in one go: same tokens, whatever the
// schedule.
#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::testing::IsEmpty;

TEST(GenerateTest, EqualsTheWholeSequenceInOneGo) {
  const auto model = TinyModelForTest();
  auto engine = MakeEngine();
  for (const int64_t length : {1, 5, 62, 63, 64, 126, 127, 400}) {
    for (const bool flush : {true, false}) {
      SCOPED_TRACE(testing::Message() << length << " tokens, flush " << flush);
      const std::vector<int32_t> prompt = SampleTokens(length, 3);
      GenerateRequest request = TokensRequest(prompt, 100);
      request.flush = flush;
      const Generated generated = Generate(*engine, request);
      ASSERT_TRUE(generated.status.ok()) << generated.status;
      ASSERT_EQ(generated.tokens.size(), 100u);
      SequenceLayout layout(model->config());
      layout.Add(prompt);
      if (flush) layout.Flush();
      layout.Add(generated.tokens);
      const ReferenceResult reference =
          RunReference(*model, {.pattern = model->config().local, .blocks = layout.blocks()});
      EXPECT_EQ(generated.tokens, GreedyTokens(*model, reference, layout, 100));
    }
  }
}

TEST(GenerateTest, MountedDocumentsAndOwnChunksAreRetrievedInOrder) {
  const auto model = TinyModelForTest();
  auto engine = MakeEngine();
  const std::vector<int32_t> first = SampleTokens(700, 11), second = SampleTokens(100, 12);
  ASSERT_TRUE(IngestTokens(*engine, "first", first).ok());
  ASSERT_TRUE(IngestTokens(*engine, "second", second).ok());
  const std::vector<int32_t> prompt = SampleTokens(300, 13);
  const Generated generated = Generate(*engine, TokensRequest(prompt, 80, {"second", "first"}));
  ASSERT_TRUE(generated.status.ok()) << generated.status;

  SequenceLayout layout(model->config());
  layout.Add(prompt);
  layout.Flush();
  layout.Add(generated.tokens);
  const ReferenceResult reference = RunReference(
      *model, {.pattern = model->config().local,
               .blocks = layout.blocks(),
               .mounted = {IngestReference(*model, second), IngestReference(*model, first)}});
  EXPECT_EQ(generated.tokens, GreedyTokens(*model, reference, layout, 80));

  // Look each up in the reference.
  const int64_t second_chunks = 2, first_chunks = 12;
  std::set<std::string> documents;
  const std::vector<int32_t>& landmarks = layout.landmarks();
  size_t seen = 0;
  for (const Retrieval& retrieval : generated.retrievals) {
    const auto landmark = std::find(landmarks.begin(), landmarks.end(), retrieval.position);
    ASSERT_NE(landmark, landmarks.end());
    const auto& expected = reference.hits[retrieval.group][landmark - landmarks.begin()];
    ASSERT_EQ(retrieval.hits.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const Hit& hit = retrieval.hits[i];
      const int64_t base = hit.document == "second"  ? 0
                           : hit.document == "first" ? second_chunks
                                                     : second_chunks + first_chunks;
      EXPECT_EQ(base + hit.chunk, expected[i].candidate);
      EXPECT_EQ(hit.score, expected[i].score);
      documents.insert(hit.document);
    }
    ++seen;
  }
  EXPECT_EQ(seen, (layout.blocks().size() - 1) * reference.hits.size());
  EXPECT_THAT(documents, testing::ElementsAre("", "first", "second"));
}

TEST(GenerateTest, PrefillSlicesThreadsAndBatchesDoNotChangeTokens) {
  const std::vector<int32_t> document = SampleTokens(1500, 21);
  std::vector<std::vector<int32_t>> expected;
  for (const int threads : {1, 2}) {
    for (const int64_t slice : {1, 7, 64, 65, 512}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, slices of " << slice);
      TestOptions options = SmallOptions();
      options.threads = threads;
      options.prefill_slice_tokens = slice;
      auto engine = MakeEngine(options);
      ASSERT_TRUE(IngestTokens(*engine, "doc", document).ok());
      std::vector<std::shared_ptr<Collector>> collectors;
      for (int i = 0; i < 7; ++i) {
        collectors.push_back(std::make_shared<Collector>());
        std::vector<std::string> mounts;
        if (i % 2 == 0) mounts.push_back("doc");
        engine->Generate(TokensRequest(SampleTokens(1 + 37 * i, 30 + i), 70, mounts),
                         collectors.back());
      }
      std::vector<std::vector<int32_t>> tokens;
      for (const auto& collector : collectors) {
        ASSERT_TRUE(collector->Wait().status.ok()) << collector->Wait().status;
        tokens.push_back(collector->Wait().tokens);
      }
      if (expected.empty()) {
        for (int i = 0; i < 7; ++i) {  // each alone
          std::vector<std::string> mounts;
          if (i % 2 == 0) mounts.push_back("doc");
          expected.push_back(
              Generate(*engine, TokensRequest(SampleTokens(1 + 37 * i, 30 + i), 70, mounts))
                  .tokens);
        }
      }
      EXPECT_EQ(tokens, expected);
    }
  }
}

// Past the end of text, too: all that a session emits can be input of the next, and of a document.
TEST(GenerateTest, OutputIsTakenAsInputAgain) {
  const auto model = TinyModelForTest();
  auto engine = MakeEngine();
  GenerateRequest request = TokensRequest(SampleTokens(10, 3), 2000);
  request.sampling.temperature = 100;  // any token
  request.flush = false;
  std::vector<int32_t> tokens = Generate(*engine, request).tokens;
  ASSERT_THAT(tokens, testing::Contains(model->config().eos_id));
  EXPECT_THAT(tokens, testing::Not(testing::Contains(model->config().lmk_id)));
  EXPECT_EQ(IngestTokens(*engine, "output", tokens)->tokens, 2000);

  tokens.insert(tokens.begin(), request.prompt.tokens.begin(), request.prompt.tokens.end());
  request = TokensRequest(tokens, 20);
  const Generated generated = Generate(*engine, request);
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  SequenceLayout layout(model->config());
  layout.Add(tokens);
  layout.Flush();
  layout.Add(generated.tokens);
  const ReferenceResult reference =
      RunReference(*model, {.pattern = model->config().local, .blocks = layout.blocks()});
  EXPECT_EQ(generated.tokens, GreedyTokens(*model, reference, layout, 20));
}

// Where a prompt is cut depends on who else has one, what is reported of it must not.
TEST(GenerateTest, RetrievalsComeInTheSameOrderAloneAndInABatch) {
  using Key = std::tuple<int64_t, int, std::vector<std::pair<std::string, int64_t>>>;
  const auto keys = [](const Generated& generated) {
    std::vector<Key> found;
    for (const Retrieval& retrieval : generated.retrievals) {
      auto& [position, group, hits] = found.emplace_back();
      position = retrieval.position;
      group = retrieval.group;
      for (const Hit& hit : retrieval.hits) hits.emplace_back(hit.document, hit.chunk);
    }
    return found;
  };
  auto engine = MakeEngine();
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(1500, 21)).ok());
  const auto request = [](int i) {
    return TokensRequest(SampleTokens(300 + 37 * i, 30 + i), 70, {"doc"});
  };
  constexpr int kSessions = 6;
  std::vector<std::vector<Key>> alone;
  for (int i = 0; i < kSessions; ++i) {
    alone.push_back(keys(Generate(*engine, request(i))));
    EXPECT_THAT(alone.back(), testing::SizeIs(testing::Gt(8)));
    EXPECT_TRUE(std::ranges::is_sorted(alone.back()));  // position and group are never the same
  }
  std::vector<std::shared_ptr<Collector>> together;
  for (int i = 0; i < kSessions; ++i) {
    together.push_back(std::make_shared<Collector>());
    engine->Generate(request(i), together.back());
  }
  for (int i = 0; i < kSessions; ++i) {
    ASSERT_TRUE(together[i]->Wait().status.ok()) << together[i]->Wait().status;
    EXPECT_EQ(keys(together[i]->Wait()), alone[i]) << i;
  }
}

TEST(GenerateTest, WarmEqualsColdEqualsTinyBudgets) {
  const std::vector<int32_t> document = SampleTokens(3000, 41);
  auto engine = MakeEngine();
  ASSERT_TRUE(IngestTokens(*engine, "doc", document).ok());
  const GenerateRequest request = TokensRequest(SampleTokens(150, 42), 150, {"doc"});
  const Generated cold = Generate(*engine, request);
  const Generated warm = Generate(*engine, request);
  ASSERT_TRUE(cold.status.ok() && warm.status.ok());
  EXPECT_EQ(warm.tokens, cold.tokens);
  EXPECT_EQ(cold.retrievals[0].hits[0].tier, Tier::kStore);
  EXPECT_EQ(warm.retrievals[0].hits[0].tier, Tier::kMemory);
  const EngineStats stats = engine->stats();
  EXPECT_GT(stats.chunk_hits_memory, 0);
  EXPECT_GT(stats.chunk_hits_store, 0);
  // A landmark step reads all its misses at once, each chunk of at most 63 rows.
  EXPECT_GT(stats.store_reads, 0);
  EXPECT_LE(stats.store_reads, stats.chunk_hits_store);
  EXPECT_GT(stats.store_read_bytes, 0);
  EXPECT_LE(stats.store_read_bytes,
            stats.chunk_hits_store * 63 * engine->model().config().d * int64_t{sizeof(Bf16)});
  EXPECT_GT(stats.store_read_p50_ms, 0);
  EXPECT_GE(stats.store_read_p99_ms, stats.store_read_p50_ms);
  EXPECT_EQ(stats.store_read_s.count(), stats.store_reads);
  EXPECT_EQ(stats.time_to_first_token_s.count(), 2);
  EXPECT_EQ(stats.inter_token_s.count(), 2 * 149);
  EXPECT_NEAR(
      stats.time_to_first_token_s.sum,
      absl::ToDoubleSeconds(cold.usage.time_to_first_token + warm.usage.time_to_first_token), 1e-9);
  EXPECT_NEAR(stats.inter_token_s.sum,
              absl::ToDoubleSeconds(cold.usage.generation_time + warm.usage.generation_time), 1e-9);
  // Two blocks end while 150 tokens are generated, each with a landmark; the prompt's do not count.
  EXPECT_GT(stats.landmark_step_store_s.count(), 0);
  EXPECT_GT(stats.landmark_step_memory_s.count(), 0);
  EXPECT_EQ(stats.landmark_step_memory_s.count() + stats.landmark_step_states_s.count() +
                stats.landmark_step_store_s.count(),
            2 * 2);
  EXPECT_EQ(stats.staged_chunks, 0);  // the layers run on the CPU

  TestOptions tiny = SmallOptions();
  tiny.memory_budget_bytes = 0;
  tiny.chunk_states_budget_bytes = 20000;  // a few chunks
  auto small = MakeEngine(tiny);
  ASSERT_TRUE(IngestTokens(*small, "doc", document).ok());
  EXPECT_EQ(Generate(*small, request).tokens, cold.tokens);
  EXPECT_LE(small->stats().chunk_states_bytes, 20000);
  EXPECT_EQ(small->stats().memory_bytes, 0);
}

TEST(GenerateTest, TurnsOfASessionContinueOneSequence) {
  const auto model = TinyModelForTest();
  auto engine = MakeEngine();
  const absl::StatusOr<SessionId> session = engine->OpenSession({});
  ASSERT_TRUE(session.ok());
  SequenceLayout layout(model->config());
  struct Turn {
    std::vector<int32_t> tokens;
    SequenceLayout layout;
  };
  std::vector<Turn> turns;
  for (int turn = 0; turn < 4; ++turn) {
    const std::vector<int32_t> prompt = SampleTokens(20 + 50 * turn, 50 + turn);
    const Generated generated = Generate(*engine, TurnRequest(*session, prompt, 40 + turn * 23));
    ASSERT_TRUE(generated.status.ok()) << generated.status;
    layout.Add(prompt);
    layout.Flush();
    layout.Add(generated.tokens);
    turns.push_back({generated.tokens, layout});
  }
  const ReferenceResult reference =
      RunReference(*model, {.pattern = model->config().local, .blocks = layout.blocks()});
  for (const Turn& turn : turns) {
    EXPECT_EQ(turn.tokens, GreedyTokens(*model, reference, turn.layout, turn.tokens.size()));
  }
  // The last token waits.
  EXPECT_EQ(engine->GetSession(*session)->positions, static_cast<int64_t>(layout.ids().size()) - 1);
  EXPECT_TRUE(engine->CloseSession(*session).ok());
  EXPECT_EQ(engine->GetSession(*session).status().code(), absl::StatusCode::kNotFound);
}

TEST(GenerateTest, ZeroTokensOnlyReadsThePrompt) {
  auto engine = MakeEngine();
  const SessionId session = *engine->OpenSession({});
  const Generated generated = Generate(*engine, TurnRequest(session, SampleTokens(100, 60), 0));
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  EXPECT_THAT(generated.tokens, IsEmpty());
  EXPECT_EQ(engine->GetSession(session)->positions, 1 + 63 + 1 + 37 + 1);
  EXPECT_EQ(engine->GetSession(session)->own_chunks, 2);
  // Nothing to run, and nothing to sample from.
  EXPECT_EQ(Generate(*engine, TurnRequest(session, {}, 5)).status.code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GenerateTest, AnotherDilationIsAnotherPattern) {
  const auto model = TinyModelForTest();
  auto engine = MakeEngine();
  const std::vector<int32_t> prompt = SampleTokens(600, 61);
  GenerateRequest request = TokensRequest(prompt, 40);
  request.session_options.dilation = 8;
  const Generated generated = Generate(*engine, request);
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  // The likeliest tokens of a random model may be the same under both.
  ScoreRequest scored = ScoreOf(prompt);
  const std::vector<float> by_default = Score(*engine, scored)->logprobs;
  scored.session_options.dilation = 8;
  EXPECT_NE(Score(*engine, scored)->logprobs, by_default);
  SequenceLayout layout(model->config());
  layout.Add(prompt);
  layout.Flush();
  layout.Add(generated.tokens);
  const model::LocalPatterns pattern =
      model->config().local.With(&model::LocalPattern::dilation, 8);
  const ReferenceResult reference =
      RunReference(*model, {.pattern = pattern, .blocks = layout.blocks()});
  EXPECT_EQ(generated.tokens, GreedyTokens(*model, reference, layout, 40));
  request.session_options.dilation = 5;
  EXPECT_EQ(Generate(*engine, request).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(GenerateTest, RandomChunksReplaceWhatRetrievalChose) {
  auto engine = MakeEngine();
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(3000, 80)).ok());
  GenerateRequest request = TokensRequest(SampleTokens(40, 81), 1, {"doc"});
  const Generated real = Generate(*engine, request);
  request.session_options.random_chunks = true;
  const Generated random = Generate(*engine, request);
  ASSERT_FALSE(real.retrievals.empty());
  ASSERT_EQ(random.retrievals[0].hits.size(), real.retrievals[0].hits.size());
  std::set<int64_t> chosen, drawn;
  for (const Hit& hit : real.retrievals[0].hits) chosen.insert(hit.chunk);
  for (const Hit& hit : random.retrievals[0].hits) drawn.insert(hit.chunk);
  EXPECT_NE(chosen, drawn);
  EXPECT_EQ(drawn.size(), random.retrievals[0].hits.size()) << "drawn without repetition";
}

TEST(GenerateTest, BadArgumentsNameTheField) {
  auto engine = MakeEngine();
  const auto expect = [&](const char* fragment, const auto& spoil) {
    GenerateRequest request = TokensRequest(SampleTokens(3, 1), 3);
    spoil(request);
    EXPECT_THAT(Generate(*engine, std::move(request)).status,
                StatusIs(absl::StatusCode::kInvalidArgument, fragment));
  };
  expect("temperature", [](auto& r) { r.sampling.temperature = -1; });
  expect("top_p", [](auto& r) { r.sampling.top_p = 0; });
  expect("top_k", [](auto& r) { r.sampling.top_k = -1; });
  expect("dry_multiplier", [](auto& r) { r.sampling.dry_multiplier = -1; });
  expect("dry_allowed_length", [](auto& r) { r.sampling.dry_allowed_length = 0; });
  expect("max_tokens", [](auto& r) { r.max_tokens = -1; });
  expect("stop", [](auto& r) { r.stop = {""}; });
  expect("prompt", [](auto& r) { r.prompt.text = "also text"; });
  expect("prompt: token 0: id 1 is reserved", [](auto& r) { r.prompt.tokens = {1}; });
  expect("prompt: token 0: id 1048576 is unknown", [](auto& r) { r.prompt.tokens = {1 << 20}; });
  expect("4", [](auto& r) { r.prompt = {"bad \xff byte", {}}; });
}

}  // namespace
}  // namespace recollect::engine
