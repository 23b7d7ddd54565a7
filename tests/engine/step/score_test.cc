// Score and retrieve against the model run over the whole sequence in one go.
#include <algorithm>
#include <atomic>
#include <future>

#include "engine/backend/sampler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

float LogProbability(std::span<const float> logits, int32_t target) {
  kernels::OpContext ctx;
  return logits[static_cast<size_t>(target)] -
         kernels::LogSumExp(ctx, logits.data(), std::ssize(logits));
}

// All ids that may be chosen, the likeliest first, ties to the lower id.
std::vector<int32_t> Ordered(const model::ModelConfig& config, std::span<const float> logits) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < std::ssize(logits); ++id)
    if (id != config.lmk_id && id != config.unk_id) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return ids;
}

TEST(ScoreTest, LogprobsOfManyTokensAreBoundedInAll) {
  auto engine = MakeEngine();
  ScoreRequest request = ScoreOf(SampleTokens(16000, 2));
  request.top_logprobs = 17;
  EXPECT_THAT(Score(*engine, request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "top_logprobs: 17 for each of 16000 tokens, at most 262144 in all"));
}

TEST(ScoreTest, EveryTokenIsScoredFromTheRowBeforeIt) {
  const auto model = TinyModelForTest();
  for (const int64_t slice : {1, 50, 64, 500}) {
    TestOptions options = SmallOptions();
    options.prefill_slice_tokens = slice;
    auto engine = MakeEngine(options);
    const std::vector<int32_t> document = SampleTokens(800, 1), tokens = SampleTokens(400, 2);
    ASSERT_TRUE(IngestTokens(*engine, "doc", document).ok());
    for (const std::vector<int64_t>& flushes :
         {std::vector<int64_t>{}, {1, 2, 40, 103, 166, 300, 400}}) {
      ScoreRequest request = ScoreOf(tokens, {"doc"});
      request.flush_after = flushes;
      request.top_logprobs = 5;
      const absl::StatusOr<ScoreResult> result = Score(*engine, request);
      ASSERT_TRUE(result.ok()) << result.status();
      std::vector<std::vector<int32_t>> blocks = {{}};
      int64_t positions = 1;
      std::vector<int64_t> where;
      for (size_t i = 0; i < tokens.size(); ++i) {
        const bool flush = std::find(flushes.begin(), flushes.end(), i) != flushes.end();
        if (blocks.back().size() == kChunkTokens || (flush && !blocks.back().empty())) {
          blocks.emplace_back();
          ++positions;
        }
        blocks.back().push_back(tokens[i]);
        where.push_back(positions++);
      }
      const ReferenceResult reference =
          RunReference(*model, {.pattern = model->config().local,
                                .blocks = blocks,
                                .mounted = {IngestReference(*model, document)}});
      ASSERT_EQ(result->logprobs.size(), tokens.size());
      const int64_t vocab = model->config().vocab_size;
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto row = std::span(reference.logits).subspan((where[i] - 1) * vocab, vocab);
        // The same bits, and so the same sum over all logits.
        ASSERT_EQ(result->logprobs[i], LogProbability(row, tokens[i])) << "token " << i;
        ASSERT_EQ(result->argmax[i], Argmax(model->config(), row)) << "token " << i;
        ASSERT_EQ(result->argmax_logprobs[i], LogProbability(row, result->argmax[i]));
        const std::vector<int32_t> likeliest = Ordered(model->config(), row);
        for (size_t n = 0; n < 5; ++n) {
          const TokenLogprob& top = result->top[5 * i + n];
          ASSERT_EQ(top.token, likeliest[n]) << "token " << i;
          ASSERT_EQ(top.logprob, LogProbability(row, top.token));
        }
      }
    }
  }
}

// Scores all prompts in one step of the scheduler, and returns how many rows that step had.
int64_t ScoreTogether(EngineImpl& engine, const std::vector<ScoreRequest>& requests,
                      std::vector<std::vector<float>>* logprobs) {
  std::atomic<int64_t> most_rows{0};
  engine.scheduler_for_test().ObserveForTest(
      [&](TurnKind, int64_t rows) { most_rows = std::max<int64_t>(most_rows, rows); });
  // Holds the scheduler up until all are there: the engine prepares requests one after the other.
  std::promise<void> held, all_there;
  auto hold = std::make_shared<Collector>();
  hold->on_tokens = [&](int64_t n) {
    if (n > 1) return;
    held.set_value();
    all_there.get_future().wait();
  };
  GenerateRequest first;
  first.prompt.tokens = {10};
  first.max_tokens = 2;
  first.ignore_eos = true;
  engine.Generate(first, hold);
  held.get_future().wait();
  std::vector<std::promise<absl::StatusOr<ScoreResult>>> results(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    engine.Score(requests[i], [&results, i](auto result) { results[i].set_value(result); });
  }
  AwaitBackground(engine);
  all_there.set_value();
  logprobs->clear();
  for (auto& result : results) logprobs->push_back(result.get_future().get()->logprobs);
  EXPECT_TRUE(hold->Wait().status.ok());
  engine.scheduler_for_test().ObserveForTest(nullptr);
  return most_rows;
}

// Equal sums over all logits of a row, with and without retrieved memory.
TEST(ScoreTest, RowsHaveTheSameBitsInAnyBatchAtAnyPlaceOnAnyThreads) {
  constexpr int kRequests = 7;
  std::vector<std::vector<float>> expected;
  for (const int threads : {1, 2, 3, 5}) {
    TestOptions options = SmallOptions();
    options.threads = threads;
    options.prefill_slice_tokens = 512;
    auto engine = MakeEngine(options);
    ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(900, 1)).ok());
    std::vector<ScoreRequest> requests(kRequests);
    for (int i = 0; i < kRequests; ++i) {
      requests[i].prompt.tokens = SampleTokens(std::vector{2, 100, 5, 16, 70, 3, 40}[i], 20 + i);
      if (i % 2 == 0) requests[i].session_options.mounts = {"doc"};
      if (i % 3 == 0) requests[i].flush_after = {1};
    }
    for (const int count : {1, 2, 3, kRequests}) {
      for (int begin = 0; begin < kRequests; ++begin) {
        SCOPED_TRACE(testing::Message() << threads << " threads, " << count << " from " << begin);
        std::vector<ScoreRequest> some;
        int64_t tokens = 0;
        for (int i = 0; i < count; ++i) {
          some.push_back(requests[(begin + i) % kRequests]);
          tokens += static_cast<int64_t>(some.back().prompt.tokens.size());
        }
        std::vector<std::vector<float>> logprobs;
        EXPECT_GT(ScoreTogether(*engine, some, &logprobs), tokens) << "not one batch";
        if (count == 1 && static_cast<int>(expected.size()) == begin) {
          expected.push_back(logprobs[0]);  // on one thread, alone
        }
        for (int i = 0; i < count; ++i) {
          EXPECT_EQ(logprobs[i], expected[(begin + i) % kRequests]) << "request " << i;
        }
      }
    }
  }
}

// So many that threads take more rows of several sessions together than one session ever has.
TEST(ScoreTest, RowsOfManySessionsHaveTheBitsThatTheyHaveAlone) {
  constexpr int kRequests = 150;
  for (const int threads : {1, 2}) {
    TestOptions options = SmallOptions();
    options.threads = threads;
    options.prefill_slice_tokens = 8 * kRequests;
    options.max_batch = options.max_sessions = options.max_queued = 2 * kRequests;
    auto engine = MakeEngine(options);
    ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(900, 1)).ok());
    std::vector<ScoreRequest> requests(kRequests);
    std::vector<std::vector<float>> expected(kRequests), together;
    for (int i = 0; i < kRequests; ++i) {
      requests[i].prompt.tokens = SampleTokens(2 + i % 3, 20 + i);
      if (i % 2 == 0) requests[i].session_options.mounts = {"doc"};
      requests[i].flush_after = {1};
      std::vector<std::vector<float>> alone;
      ScoreTogether(*engine, {requests[i]}, &alone);
      expected[i] = alone[0];
    }
    EXPECT_GT(ScoreTogether(*engine, requests, &together), 2 * kRequests) << "not one batch";
    EXPECT_EQ(together, expected) << threads << " threads";
  }
}

TEST(ScoreTest, PiecesInAnOpenSessionHaveTheBitsOfTheWhole) {
  for (const int64_t slice : {1, 50, 64, 500}) {
    TestOptions options = SmallOptions();
    options.prefill_slice_tokens = slice;
    auto engine = MakeEngine(options);
    ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(800, 1)).ok());
    ScoreRequest whole = ScoreOf(SampleTokens(400, 2), {"doc"});
    const ScoreResult expected = Score(*engine, whole).value();
    GenerateRequest after = TokensRequest(whole.prompt.tokens, 20, {"doc"});
    after.flush = false;
    const std::vector<int32_t> follows = Generate(*engine, after).tokens;
    for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
             {400}, {1, 399}, {63, 63, 1, 62, 64, 147}, {1, 1, 61, 1, 1, 1, 334}}) {
      const SessionId session = engine->OpenSession({.mounts = {"doc"}}).value();
      const ScoreResult pieces = ScorePieces(*engine, session, whole.prompt.tokens, sizes);
      EXPECT_EQ(pieces.logprobs, expected.logprobs);
      EXPECT_EQ(pieces.argmax, expected.argmax);
      EXPECT_EQ(pieces.argmax_logprobs, expected.argmax_logprobs);
      EXPECT_EQ(pieces.text_bytes, expected.text_bytes);
      // The last token is still to be run.
      GenerateRequest next = TurnRequest(session, {}, 20);
      next.flush = false;
      EXPECT_EQ(Generate(*engine, next).tokens, follows);
      EXPECT_TRUE(engine->CloseSession(session).ok());
    }
  }
}

TEST(ScoreTest, AnOpenSessionGoesOnWithAnswersAndFlushes) {
  auto engine = MakeEngine();
  const std::vector<int32_t> prompt = SampleTokens(100, 2), rest = SampleTokens(90, 3);
  const SessionId session = engine->OpenSession({}).value();
  GenerateRequest generate = TurnRequest(session, prompt, 30);
  const std::vector<int32_t> answer = Generate(*engine, generate).tokens;
  ScoreRequest piece;
  piece.session = session;
  piece.prompt.tokens = rest;
  piece.flush_after = {5, 89};
  const absl::StatusOr<ScoreResult> scored = Score(*engine, piece);
  ASSERT_TRUE(scored.ok()) << scored.status();
  ScoreRequest whole;
  for (const auto* part : {&prompt, &answer, &rest})
    whole.prompt.tokens.insert(whole.prompt.tokens.end(), part->begin(), part->end());
  whole.flush_after = {100, 135, 219};
  const ScoreResult expected = Score(*engine, whole).value();
  EXPECT_EQ(scored->logprobs,
            std::vector<float>(expected.logprobs.begin() + 130, expected.logprobs.end()));
  // Behind the last token there is nothing to flush yet.
  piece.flush_after = {90};
  EXPECT_THAT(Score(*engine, piece),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "flush_after: 90, expected ascending counts from 1 to 89"));
  // A prompt without an answer has run its last token.
  generate.prompt.tokens = {9, 10};
  generate.max_tokens = 0;
  generate.flush = false;
  ASSERT_TRUE(Generate(*engine, generate).status.ok());
  piece.flush_after.clear();
  const ScoreResult gone = Score(*engine, piece).value();
  EXPECT_EQ(gone.argmax[0], -1);
  EXPECT_EQ(gone.logprobs[0], 0);
  EXPECT_GE(gone.argmax[1], 0);
  piece.session = SessionId{999};
  EXPECT_EQ(Score(*engine, piece).status().code(), absl::StatusCode::kNotFound);
}

TEST(ScoreTest, EmptyAndBadArguments) {
  auto engine = MakeEngine();
  ScoreRequest request;
  EXPECT_EQ(Score(*engine, request).status().code(), absl::StatusCode::kInvalidArgument);
  request.prompt.text = "some text to score";
  const auto result = Score(*engine, request);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->text_bytes, 18);
  request.flush_after = {3, 2};
  EXPECT_EQ(Score(*engine, request).status().code(), absl::StatusCode::kInvalidArgument);
  request.flush_after = {1000};
  EXPECT_EQ(Score(*engine, request).status().code(), absl::StatusCode::kInvalidArgument);
  request.flush_after.clear();
  request.prompt = {"", std::vector<int32_t>(65537, 10)};
  const absl::Status long_prompt = Score(*engine, request).status();
  EXPECT_EQ(long_prompt.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(long_prompt.message()),
              testing::HasSubstr("prompt.tokens: count: 65537, limit 0 to 65536"));
}

TEST(ScoreTest, PromptsOfAllRequestsAreCounted) {
  auto engine = MakeEngine();
  ASSERT_TRUE(Score(*engine, ScoreOf(SampleTokens(70, 1))).ok());
  EXPECT_EQ(engine->stats().prompt_tokens, 70);
  ASSERT_TRUE(Retrieve(*engine, RetrieveOf(SampleTokens(7, 2))).ok());
  EXPECT_EQ(engine->stats().prompt_tokens, 77);
  ASSERT_TRUE(Generate(*engine, TokensRequest(SampleTokens(3, 3), 5)).status.ok());
  EXPECT_EQ(engine->stats().prompt_tokens, 80);
}

TEST(RetrieveTest, GivesTheListsOfGeneratesFirstRetrieval) {
  auto engine = MakeEngine();
  const int n_ret = engine->model().config().n_ret;
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(2000, 3)).ok());
  RetrieveRequest request = RetrieveOf(SampleTokens(100, 4), {"doc"});
  GenerateRequest generate;
  generate.session_options = request.session_options;
  generate.prompt = request.query;
  generate.max_tokens = 1;
  generate.with_retrievals = true;
  const Generated generated = Generate(*engine, generate);
  const size_t groups = engine->model().config().groups.size();
  for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{n_ret}, int64_t{n_ret + 5}}) {
    request.k = k;
    const auto lists = Retrieve(*engine, request);
    ASSERT_TRUE(lists.ok()) << lists.status();
    ASSERT_EQ(lists->size(), groups);
    for (size_t g = 0; g < groups; ++g) {
      const Retrieval& list = (*lists)[g];
      EXPECT_EQ(list.group, static_cast<int>(g));
      // The landmark that closes the prompt comes last among generate's retrievals of the group.
      const Retrieval* first = nullptr;
      for (const Retrieval& retrieval : generated.retrievals) {
        if (retrieval.group == list.group) first = &retrieval;
      }
      ASSERT_NE(first, nullptr);
      EXPECT_EQ(list.position, first->position);
      EXPECT_EQ(list.hits.size(), static_cast<size_t>(k == 0 ? n_ret : k));
      for (size_t i = 0; i < list.hits.size(); ++i) {
        if (i >= first->hits.size()) {
          EXPECT_EQ(list.hits[i].weight, 0);
          continue;
        }
        EXPECT_EQ(list.hits[i].document, first->hits[i].document);
        EXPECT_EQ(list.hits[i].chunk, first->hits[i].chunk);
        EXPECT_EQ(list.hits[i].score, first->hits[i].score);
        EXPECT_EQ(list.hits[i].weight, first->hits[i].weight);
      }
    }
  }
  const Hit hit = generated.retrievals[0].hits[0];
  EXPECT_EQ(engine->ReadText("doc", hit.text_begin, hit.text_end)->size(),
            static_cast<size_t>(hit.text_end - hit.text_begin));
}

TEST(RetrieveTest, OnlyTheLandmarkThatIsReportedFetchesMore) {
  auto engine = MakeEngine();
  const model::ModelConfig& config = engine->model().config();
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(20000, 3)).ok());
  const auto fetched = [&] {
    const EngineStats stats = engine->stats();
    return stats.chunk_hits_memory + stats.chunk_hits_states + stats.chunk_hits_store;
  };
  RetrieveRequest request = RetrieveOf(SampleTokens(1000, 4), {"doc"});
  ASSERT_TRUE(Retrieve(*engine, request).ok());
  const int64_t few = fetched();
  const int64_t kept = engine->stats().memory_bytes + engine->stats().chunk_states_bytes;
  request.k = 300;
  const auto lists = Retrieve(*engine, request);
  ASSERT_TRUE(lists.ok()) << lists.status();
  for (const Hit& hit : lists->front().hits) EXPECT_LT(hit.text_begin, hit.text_end);
  // What is only reported pushes nothing out of the caches. The session's own go with it.
  EXPECT_LE(engine->stats().memory_bytes + engine->stats().chunk_states_bytes, 2 * kept);
  const int64_t groups = std::ssize(config.groups);
  // Less where it also chooses what another landmark of its piece has.
  EXPECT_LE(fetched() - few, few + groups * (request.k - config.n_ret));
}

TEST(RetrieveTest, NothingMountedGivesEmptyLists) {
  auto engine = MakeEngine();
  RetrieveRequest request;
  request.query.text = "where is it?";
  const auto lists = Retrieve(*engine, request);
  ASSERT_TRUE(lists.ok()) << lists.status();
  ASSERT_EQ(lists->size(), engine->model().config().groups.size());
  EXPECT_TRUE((*lists)[0].hits.empty());
  request.query.text = "";
  EXPECT_EQ(Retrieve(*engine, request).status().code(), absl::StatusCode::kInvalidArgument);
  request.query.text = "q";
  request.k = 1 << 20;
  EXPECT_EQ(Retrieve(*engine, request).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recollect::engine
