// DRT as published in the engine, and the settings between it and the flagship, against the model
// run over the whole sequence in one go.
#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backend/sampler.h"
#include "gtest/gtest.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

struct Setting {
  const char* name;
  void (*change)(model::ModelConfig& config);
};

void Published(model::ModelConfig&) {}
void Of64Tokens(model::ModelConfig& config) {
  config.chunk_tokens = 64;
  config.gca_softmax = model::GcaSoftmax::kOrdinary;
}
void ReadsOwn(model::ModelConfig& config) { config.landmark_reads = model::LandmarkReads::kOwn; }
void AtStart(model::ModelConfig& config) { config.landmark_at = model::LandmarkAt::kStart; }
void LandmarksOfTheFlagship(model::ModelConfig& config) {
  ReadsOwn(config);
  AtStart(config);
  config.landmark_row = model::LandmarkRow::kCls;
  config.score_projections = true;
}

// The model of a setting, loaded once for the process.
std::shared_ptr<const model::CpuModel> ModelOf(const Setting& setting) {
  static auto* const models = new std::map<std::string, std::shared_ptr<const model::CpuModel>>();
  std::shared_ptr<const model::CpuModel>& slot = (*models)[setting.name];
  if (slot == nullptr) {
    const std::string directory =
        absl::StrCat(::testing::TempDir(), "/engine_drt_paper_", setting.name);
    model::ModelConfig config = TinyDrtPaperConfig();
    setting.change(config);
    WriteTinyModel(directory, config, 1, /*sublayers=*/4);
    auto model = model::CpuModel::Load(directory);
    EXPECT_TRUE(model.ok()) << model.status();
    slot = *std::move(model);
  }
  return slot;
}

// From any logits: a token's log probability, to compare the whole row by.
float LogProbability(std::span<const float> logits, int32_t target) {
  kernels::OpContext ctx;
  return logits[static_cast<size_t>(target)] -
         kernels::LogSumExp(ctx, logits.data(), std::ssize(logits));
}

class DrtPaperTest : public ::testing::TestWithParam<Setting> {
 protected:
  std::unique_ptr<EngineImpl> Make(const TestOptions& options = SmallOptions()) const {
    return MakeEngine(options, nullptr, model_);
  }

  // The last `count` tokens of `layout`, chosen greedily from the model's own logits.
  std::vector<int32_t> Greedy(const SequenceLayout& layout, size_t count,
                              std::vector<std::vector<model::EncodedChunk>> mounted = {}) const {
    const ReferenceResult reference = RunReference(*model_, {.pattern = model_->config().local,
                                                             .blocks = layout.blocks(),
                                                             .mounted = std::move(mounted)});
    return GreedyTokens(*model_, reference, layout, count);
  }
  std::span<const float> Row(const ReferenceResult& reference, int64_t position) const {
    const int64_t vocab = model_->config().vocab_size;
    return std::span(reference.logits)
        .subspan(static_cast<size_t>(position * vocab), static_cast<size_t>(vocab));
  }

  const std::shared_ptr<const model::CpuModel> model_ = ModelOf(GetParam());
};

TEST_P(DrtPaperTest, GeneratesTheWholeSequencesTokens) {
  auto engine = Make();
  const std::vector<int32_t> document = SampleTokens(700, 11);
  ASSERT_TRUE(IngestTokens(*engine, "doc", document).ok());
  for (const int64_t length : {1, 62, 63, 64, 65, 127, 128, 400}) {
    for (const bool flush : {true, false}) {
      SCOPED_TRACE(testing::Message() << length << " tokens, flush " << flush);
      const std::vector<int32_t> prompt = SampleTokens(length, 3);
      GenerateRequest request = TokensRequest(prompt, 100, {"doc"});
      request.flush = flush;
      const Generated generated = Generate(*engine, request);
      ASSERT_TRUE(generated.status.ok()) << generated.status;
      ASSERT_EQ(generated.tokens.size(), 100u);
      SequenceLayout layout(model_->config());
      layout.Add(prompt);
      if (flush) layout.Flush();
      layout.Add(generated.tokens);
      EXPECT_EQ(generated.tokens, Greedy(layout, 100, {IngestReference(*model_, document)}));
    }
  }
}

TEST_P(DrtPaperTest, TurnsOfASessionAreOneSequence) {
  auto engine = Make();
  const SessionId session = *engine->OpenSession({});
  SequenceLayout layout(model_->config());
  for (int turn = 0; turn < 4; ++turn) {
    const std::vector<int32_t> prompt = SampleTokens(20 + 50 * turn, 50 + turn);
    const Generated generated = Generate(*engine, TurnRequest(session, prompt, 40 + turn * 23));
    ASSERT_TRUE(generated.status.ok()) << generated.status;
    layout.Add(prompt);
    layout.Flush();
    layout.Add(generated.tokens);
    EXPECT_EQ(generated.tokens, Greedy(layout, generated.tokens.size())) << turn;
  }
}

// In any slices, on any threads, alone or in a batch: the same bits, and so the same sums over all
// logits.
TEST_P(DrtPaperTest, ScoresAreThoseOfTheWholeSequence) {
  const std::vector<int32_t> document = SampleTokens(800, 1), tokens = SampleTokens(400, 2);
  const std::vector<std::vector<int64_t>> flushes = {{}, {1, 2, 40, 103, 166, 300, 400}};
  for (const int64_t slice : {1, 50, 64, 500}) {
    SCOPED_TRACE(slice);
    TestOptions options = SmallOptions();
    options.prefill_slice_tokens = slice;
    options.threads = slice == 500 ? 3 : 2;
    auto engine = Make(options);
    ASSERT_TRUE(IngestTokens(*engine, "doc", document).ok());
    std::vector<std::promise<absl::StatusOr<ScoreResult>>> results(flushes.size());
    for (size_t i = 0; i < flushes.size(); ++i) {
      ScoreRequest request = ScoreOf(tokens, {"doc"});
      request.flush_after = flushes[i];
      engine->Score(request, [&results, i](auto result) { results[i].set_value(result); });
    }
    for (size_t i = 0; i < flushes.size(); ++i) {
      const absl::StatusOr<ScoreResult> result = results[i].get_future().get();
      ASSERT_TRUE(result.ok()) << result.status();
      if (flushes[i].empty()) {
        const SessionId session = engine->OpenSession({.mounts = {"doc"}}).value();
        const int64_t rest = std::ssize(tokens) - 128;
        EXPECT_EQ(ScorePieces(*engine, session, tokens, {63, 1, 64, rest}).logprobs,
                  result->logprobs);
        EXPECT_TRUE(engine->CloseSession(session).ok());
      }
      SequenceLayout layout(model_->config());
      for (int64_t at = 0; at < std::ssize(tokens); ++at) {
        if (std::find(flushes[i].begin(), flushes[i].end(), at) != flushes[i].end()) layout.Flush();
        layout.Add({tokens[static_cast<size_t>(at)]});
      }
      const ReferenceResult reference =
          RunReference(*model_, {.pattern = model_->config().local,
                                 .blocks = layout.blocks(),
                                 .mounted = {IngestReference(*model_, document)}});
      for (size_t t = 0; t < tokens.size(); ++t) {
        const int64_t predictor = layout.predictors()[t];
        if (predictor < 0) {  // nothing comes before
          EXPECT_EQ(result->argmax[t], -1);
          continue;
        }
        const auto row = Row(reference, predictor);
        ASSERT_EQ(result->logprobs[t], LogProbability(row, tokens[t])) << "token " << t;
        ASSERT_EQ(result->argmax[t], Argmax(model_->config(), row)) << "token " << t;
      }
    }
  }
}

TEST_P(DrtPaperTest, IngestLeavesTheSameRecordsInAnySlices) {
  const std::vector<int32_t> tokens = SampleTokens(1000, 5);
  const std::vector<model::EncodedChunk> expected = IngestReference(*model_, tokens);
  std::string first;
  for (const int64_t slice : {64, 300, 65536}) {
    SCOPED_TRACE(slice);
    TestOptions options = SmallOptions();
    options.ingest_slice_tokens = slice;
    options.commit_tokens = slice == 64 ? 100 : 5000;
    std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
    auto engine = MakeEngine(options, std::make_unique<ForwardingStore>(store), model_);
    const auto info = IngestTokens(*engine, "doc", tokens);
    ASSERT_TRUE(info.ok()) << info.status();
    ASSERT_EQ(info->chunks, std::ssize(expected));
    const int64_t d_r = model_->config().key_width();
    const auto keys = *store->ReadLandmarkKeys(info->owner, info->chunks, d_r);
    for (int64_t i = 0; i < info->chunks; ++i) {
      const ChunkRef ref{info->owner, i};
      const auto record = store->ReadChunks({&ref, 1})[0];
      ASSERT_TRUE(record.ok()) << record.status();
      const model::EncodedChunk& chunk = expected[static_cast<size_t>(i)];
      EXPECT_EQ(record->states, chunk.states);
      EXPECT_TRUE(
          std::equal(chunk.landmark_key.begin(), chunk.landmark_key.end(), keys.begin() + i * d_r));
    }
    const std::string dump = DumpDocument(*store, "doc", d_r);
    if (first.empty()) first = dump;
    EXPECT_TRUE(dump == first);
  }
}

TEST_P(DrtPaperTest, RetrieveGivesWhatTheLandmarkAfterTheQueryFinds) {
  auto engine = Make();
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(2000, 3)).ok());
  for (const int64_t length : {5, 63, 64, 100}) {  // with and without a flush to place it
    SCOPED_TRACE(length);
    RetrieveRequest request = RetrieveOf(SampleTokens(length, 4), {"doc"});
    const auto lists = Retrieve(*engine, request);
    ASSERT_TRUE(lists.ok()) << lists.status();
    const Generated generated = Generate(*engine, TokensRequest(request.query.tokens, 1, {"doc"}));
    const size_t groups = model_->config().groups.size();
    ASSERT_EQ(lists->size(), groups);
    ASSERT_GE(generated.retrievals.size(), groups);
    SequenceLayout layout(model_->config());
    layout.Add(request.query.tokens);
    layout.Flush();
    for (size_t g = 0; g < groups; ++g) {
      const Retrieval& list = (*lists)[g];
      const auto last =
          std::find_if(generated.retrievals.rbegin(), generated.retrievals.rend(),
                       [&](const Retrieval& retrieval) { return retrieval.group == list.group; });
      EXPECT_EQ(list.position, layout.landmarks().back());
      EXPECT_EQ(list.position, last->position);
      ASSERT_EQ(list.hits.size(), last->hits.size());
      for (size_t i = 0; i < list.hits.size(); ++i) {
        EXPECT_EQ(list.hits[i].chunk, last->hits[i].chunk);
        EXPECT_EQ(list.hits[i].score, last->hits[i].score);
      }
    }
  }
}

// A landmark at the start predicts a block's first token; one at the end predicts nothing.
TEST_P(DrtPaperTest, AnEmptyPromptNeedsARowToPredictFrom) {
  auto engine = Make();
  const bool at_start = model_->config().landmark_at == model::LandmarkAt::kStart;
  const auto expected = at_start ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument;
  if (!at_start) {
    EXPECT_EQ(Generate(*engine, TokensRequest({}, 3)).status.code(), expected);
  }
  const SessionId session = *engine->OpenSession({});
  GenerateRequest request = TurnRequest(session, SampleTokens(10, 1), 0);
  request.flush = false;
  ASSERT_TRUE(Generate(*engine, request).status.ok());
  request = TurnRequest(session, {}, 3);
  EXPECT_EQ(Generate(*engine, request).status.code(), expected);
  if (at_start) return;
  // What was refused left the session as it was.
  request.prompt.tokens = SampleTokens(20, 2);
  const Generated generated = Generate(*engine, request);
  SequenceLayout layout(model_->config());
  layout.Add(SampleTokens(10, 1));
  layout.Add(request.prompt.tokens);
  layout.Flush();
  layout.Add(generated.tokens);
  EXPECT_EQ(generated.tokens, Greedy(layout, 3));
}

TEST_P(DrtPaperTest, PatternsAreRefused) {
  auto engine = Make();
  SessionOptions options;
  options.dilation = 3;
  options.window = 7;
  const absl::Status status = engine->OpenSession(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            "local pattern: window is 7, the checkpoint is adapted to 80; dilation is 3, the "
            "checkpoint is adapted to -1");
}

INSTANTIATE_TEST_SUITE_P(Settings, DrtPaperTest,
                         ::testing::Values(Setting{"Published", Published},
                                           Setting{"Of64Tokens", Of64Tokens},
                                           Setting{"ReadsOwn", ReadsOwn},
                                           Setting{"AtStart", AtStart},
                                           Setting{"AsFlagship", LandmarksOfTheFlagship}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace recollect::engine
