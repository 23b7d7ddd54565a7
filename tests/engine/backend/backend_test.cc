// The engine over a backend that fails: who hears of it, who goes on, and what is left behind. The
// backend is that of the CPU, which itself never fails.
#include "engine/backend/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/backend/cpu/cpu_backend.h"
#include "tests/engine/engine_testing.h"

namespace recollect::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

enum class Stage {
  kNewSequence,
  kNewEncoder,
  kLower,
  kEncodeClosed,
  kQueries,
  kProject,
  kGroup,
  kHead,
  kIngest,
  kSerialize
};

std::string Name(Stage stage) {
  static constexpr const char* kNames[] = {"NewSequence", "NewEncoder", "Lower", "EncodeClosed",
                                           "Queries",     "Project",    "Group", "Head",
                                           "Ingest",      "Serialize"};
  return kNames[static_cast<size_t>(stage)];
}

// Asked after each call with the pieces or whatever else it was for; an error becomes the call's.
using Verdict = std::function<absl::Status(Stage stage, size_t count)>;

// Thread-safe.
class Judge {
 public:
  void Set(Verdict verdict) {
    std::lock_guard<std::mutex> lock(mutex_);
    verdict_ = std::move(verdict);
  }
  // `result`, or the error. By then all the work is done: no caller may use what it left.
  template <typename Result>
  Result Pass(Stage stage, size_t count, Result result) {
    std::lock_guard<std::mutex> lock(mutex_);
    const absl::Status status = verdict_ ? verdict_(stage, count) : absl::OkStatus();
    return status.ok() ? std::move(result) : Result(status);
  }

 private:
  std::mutex mutex_;
  Verdict verdict_;
};

class JudgedEncoder final : public MemoryEncoder {
 public:
  JudgedEncoder(std::unique_ptr<MemoryEncoder> to, std::shared_ptr<Judge> judge)
      : MemoryEncoder(TinyModelForTest()->config(), to->patterns()),
        to_(std::move(to)),
        judge_(std::move(judge)) {}
  absl::StatusOr<std::vector<model::EncodedChunk>> Encode(std::span<const Block> blocks,
                                                          const ThreadPool::Pause& pause) override {
    return judge_->Pass(Stage::kIngest, blocks.size(), to_->Encode(blocks, pause));
  }
  int64_t bytes() const override { return to_->bytes(); }
  absl::StatusOr<std::string> SerializeLayer(int layer) const override {
    absl::StatusOr<std::string> bytes = to_->SerializeLayer(layer);
    return layer > 0 ? bytes
                     : judge_->Pass(Stage::kSerialize, 1, std::move(bytes));  // once a state
  }
  absl::Status Begin(model::LocalState state) override { return to_->Begin(std::move(state)); }

 private:
  const std::unique_ptr<MemoryEncoder> to_;
  const std::shared_ptr<Judge> judge_;
};

class JudgedBackend final : public Backend {
 public:
  std::string name() const override { return "judged"; }
  absl::StatusOr<std::unique_ptr<SequenceState>> NewSequence(
      const model::LocalPatterns& patterns) override {
    return judge->Pass(Stage::kNewSequence, 1, to_.NewSequence(patterns));
  }
  absl::StatusOr<std::unique_ptr<MemoryEncoder>> NewEncoder(
      const model::LocalPatterns& patterns) override {
    absl::StatusOr<std::unique_ptr<MemoryEncoder>> encoder =
        std::make_unique<JudgedEncoder>(*to_.NewEncoder(patterns), judge);
    return judge->Pass(Stage::kNewEncoder, 1, std::move(encoder));
  }
  absl::Status RunLower(std::span<PieceRows* const> pieces) override {
    return judge->Pass(Stage::kLower, pieces.size(), to_.RunLower(pieces));
  }
  absl::StatusOr<std::vector<model::EncodedChunk>> EncodeClosed(
      std::span<PieceRows* const> pieces) override {
    return judge->Pass(Stage::kEncodeClosed, pieces.size(), to_.EncodeClosed(pieces));
  }
  absl::Status Queries(int group, std::span<const QueryRow> rows) override {
    return judge->Pass(Stage::kQueries, rows.size(), to_.Queries(group, rows));
  }
  absl::StatusOr<std::vector<ProjectedMemory>> Project(
      std::span<const ChunkToProject> chunks) override {
    return judge->Pass(Stage::kProject, chunks.size(), to_.Project(chunks));
  }
  absl::Status RunGroup(std::span<PieceRows* const> pieces, int group) override {
    return judge->Pass(Stage::kGroup, pieces.size(), to_.RunGroup(pieces, group));
  }
  absl::StatusOr<model::Reading> Read(const model::ReaderQuestion& question) override {
    return to_.Read(question);
  }
  std::vector<std::vector<float>> Rerank(std::span<const model::RerankerText> texts) override {
    return to_.Rerank(texts);
  }
  absl::Status RunHead(std::span<PieceRows* const> pieces) override {
    return judge->Pass(Stage::kHead, pieces.size(), to_.RunHead(pieces));
  }

  const std::shared_ptr<Judge> judge = std::make_shared<Judge>();

 private:
  CpuBackend to_{TinyModelForTest(), std::make_shared<ComputeThreads>(2)};
};

struct Fixture {
  Fixture() {
    TestOptions options = SmallOptions();
    options.backend = backend;
    engine = MakeEngine(options, std::make_unique<ForwardingStore>(store));
  }
  std::string Dump(const std::string& id) {
    return DumpDocument(*store, id, engine->model().config().key_width());
  }
  // The call number `nth` of `stage`, from now on, fails, and so many in all.
  void Fail(Stage stage, const absl::Status& status, int nth = 1, int times = 1) {
    backend->judge->Set([stage, status, nth, times](Stage at, size_t) mutable {
      return at == stage && --nth <= 0 && nth > -times ? status : absl::OkStatus();
    });
  }

  std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
  std::shared_ptr<JudgedBackend> backend = std::make_shared<JudgedBackend>();
  std::unique_ptr<EngineImpl> engine;
};

GenerateRequest Ask(int64_t max_tokens, std::vector<std::string> mounts = {}) {
  GenerateRequest request = TokensRequest(SampleTokens(100, 7), max_tokens, std::move(mounts));
  request.sampling.temperature = 1;  // the likeliest tokens of the tiny model are all the same
  return request;
}

GenerateRequest AskIn(SessionId session, int64_t max_tokens) {
  GenerateRequest request = Ask(max_tokens);
  request.session = session;
  return request;
}

TEST(BackendTest, IsNamedAndGivesTheTokensOfItsOwn) {
  Fixture f;
  auto cpu = MakeEngine();
  const std::string text = SampleText(9000, 1);
  ASSERT_TRUE(Ingest(*f.engine, "doc", text).ok());
  ASSERT_TRUE(Ingest(*cpu, "doc", text).ok());
  EXPECT_EQ(Generate(*f.engine, Ask(40, {"doc"})).tokens, Generate(*cpu, Ask(40, {"doc"})).tokens);
  EXPECT_EQ(f.engine->stats().backend, "judged");
  EXPECT_EQ(cpu->stats().backend, "cpu");
}

TEST(BackendTest, WithoutRoomForASequenceThereIsNoSession) {
  Fixture f;
  const absl::Status full = absl::ResourceExhaustedError("the device is full");
  f.Fail(Stage::kNewSequence, full);
  EXPECT_EQ(f.engine->OpenSession({}).status(), full);
  f.Fail(Stage::kNewSequence, full);
  EXPECT_EQ(Generate(*f.engine, Ask(3)).status, full);
  EXPECT_EQ(f.engine->stats().sessions, 0);
  EXPECT_EQ(Generate(*f.engine, Ask(3)).tokens.size(), 3u);
}

TEST(BackendTest, WithoutRoomForAnEncoderTheIdStaysFree) {
  Fixture f;
  f.Fail(Stage::kNewEncoder, absl::ResourceExhaustedError("the device is full"));
  const absl::Status status = f.engine->BeginIngest("doc", false, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("doc"), HasSubstr("is full")));
  EXPECT_TRUE(Ingest(*f.engine, "doc", SampleText(900, 1)).ok());
}

TEST(BackendTest, AnErrorEndsEveryRequestOfItsBatch) {
  Fixture f;
  const absl::Status lost = absl::UnavailableError("the device is lost");
  f.backend->judge->Set([lost](Stage stage, size_t count) {
    return stage == Stage::kHead && count == 2 ? lost : absl::OkStatus();
  });
  auto first = std::make_shared<Collector>(), second = std::make_shared<Collector>();
  first->on_tokens = [&](int64_t so_far) {
    if (so_far == 1) f.engine->Generate(Ask(1000), second);
  };
  f.engine->Generate(Ask(1000), first);
  EXPECT_EQ(first->Wait().status, lost);
  EXPECT_EQ(second->Wait().status, lost);
  EXPECT_EQ(Generate(*f.engine, Ask(3)).tokens.size(), 3u);
}

TEST(BackendTest, MemoryThatNobodyReadsMakesRoom) {
  Fixture f;
  ASSERT_TRUE(Ingest(*f.engine, "doc", SampleText(9000, 1)).ok());
  ASSERT_TRUE(Ingest(*f.engine, "other", SampleText(9000, 2)).ok());
  const std::vector<int32_t> expected = Generate(*f.engine, Ask(20, {"doc"})).tokens;
  f.engine->tiers_for_test().Drop();
  ASSERT_EQ(Generate(*f.engine, Ask(200, {"other"})).status, absl::OkStatus());
  const int64_t cached = f.engine->stats().memory_bytes;
  f.Fail(Stage::kProject, absl::ResourceExhaustedError("the device is full"));
  const Generated generated = Generate(*f.engine, Ask(1, {"doc"}));
  EXPECT_EQ(generated.status, absl::OkStatus());
  EXPECT_LT(f.engine->stats().memory_bytes, cached);
  EXPECT_EQ(Generate(*f.engine, Ask(20, {"doc"})).tokens, expected);
}

// One that left the step to read chunks has no part in what the others run into.
TEST(BackendTest, APieceThatWaitsForItsChunksGoesOnAfterAnErrorOfTheOthers) {
  Fixture f;
  ASSERT_TRUE(Ingest(*f.engine, "doc", SampleText(9000, 1)).ok());
  const std::vector<int32_t> expected = Generate(*f.engine, Ask(20, {"doc"})).tokens;
  f.engine->tiers_for_test().Drop();
  const absl::Status lost = absl::UnavailableError("the device is lost");
  f.backend->judge->Set([lost, began = size_t{0}, over = false](Stage stage, size_t count) mutable {
    if (stage == Stage::kLower) began = count;
    if (over || stage != Stage::kGroup || count == began) return absl::OkStatus();
    over = true;
    return lost;
  });
  auto streaming = std::make_shared<Collector>(), waiting = std::make_shared<Collector>();
  streaming->on_tokens = [&](int64_t so_far) {
    if (so_far == 1) f.engine->Generate(Ask(20, {"doc"}), waiting);
  };
  f.engine->Generate(Ask(1000), streaming);
  EXPECT_EQ(streaming->Wait().status, lost);
  EXPECT_EQ(waiting->Wait().status, absl::OkStatus());
  EXPECT_EQ(waiting->Wait().tokens, expected);
}

using FailureParam = std::tuple<Stage, absl::StatusCode>;

std::string ParamName(const ::testing::TestParamInfo<FailureParam>& info) {
  const bool lost = std::get<1>(info.param) == absl::StatusCode::kUnavailable;
  return Name(std::get<0>(info.param)) + (lost ? "Unavailable" : "Exhausted");
}

class StepFailureTest : public ::testing::TestWithParam<FailureParam> {};

TEST_P(StepFailureTest, BreaksItsSessionAndNoOther) {
  const auto [stage, code] = GetParam();
  const absl::Status error(code, "of the device");
  Fixture f;
  ASSERT_TRUE(Ingest(*f.engine, "doc", SampleText(9000, 1)).ok());
  const std::vector<int32_t> expected = Generate(*f.engine, Ask(20, {"doc"})).tokens;
  const SessionOptions options{.mounts = {"doc"}};
  const SessionId broken = *f.engine->OpenSession(options);
  const SessionId spared = *f.engine->OpenSession(options);
  f.engine->tiers_for_test().Drop();  // else nothing is projected

  // Of room for memory K, V a second try decides.
  const bool tried_again = stage == Stage::kProject && absl::IsResourceExhausted(error);
  f.Fail(stage, error, 1, tried_again ? 2 : 1);
  const Generated failed = Generate(*f.engine, AskIn(broken, 20));
  EXPECT_EQ(failed.status, error);
  EXPECT_TRUE(failed.tokens.empty());
  const bool before_chunks = stage <= Stage::kEncodeClosed;
  EXPECT_EQ(f.engine->GetSession(broken)->own_chunks == 0, before_chunks);
  const absl::Status again = Generate(*f.engine, AskIn(broken, 20)).status;
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()),
              AllOf(HasSubstr("can only be closed"), HasSubstr("of the device")));
  EXPECT_TRUE(f.engine->CloseSession(broken).ok());

  EXPECT_EQ(Generate(*f.engine, AskIn(spared, 20)).tokens, expected);
  EXPECT_EQ(Generate(*f.engine, Ask(20, {"doc"})).tokens, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Stages, StepFailureTest,
    ::testing::Combine(::testing::Values(Stage::kLower, Stage::kEncodeClosed, Stage::kQueries,
                                         Stage::kProject, Stage::kGroup, Stage::kHead),
                       ::testing::Values(absl::StatusCode::kUnavailable,
                                         absl::StatusCode::kResourceExhausted)),
    ParamName);

class IngestFailureTest : public ::testing::TestWithParam<FailureParam> {};

TEST_P(IngestFailureTest, EndsTheStreamWhichIsResumedAtItsLastCommit) {
  const auto [stage, code] = GetParam();
  const std::string text = SampleText(20000, 4);
  Fixture whole;
  ASSERT_TRUE(Ingest(*whole.engine, "doc", text).ok());

  Fixture f;
  // Behind the first commit, which comes with the third slice.
  f.Fail(stage, absl::Status(code, "of the device"), stage == Stage::kIngest ? 5 : 2);
  const absl::Status failed = Ingest(*f.engine, "doc", text).status();
  EXPECT_EQ(failed.code(), code);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("of the device"));
  EXPECT_TRUE(f.engine->ListDocuments("", 10)->empty());
  EXPECT_EQ(Generate(*f.engine, Ask(3)).tokens.size(), 3u);

  auto stream = f.engine->BeginIngest("doc", false, {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_GT((*stream)->status().committed_offset, 0);
  EXPECT_LT((*stream)->status().committed_offset, static_cast<int64_t>(text.size()));
  const absl::StatusOr<store::DocumentInfo> info = SendText(**stream, text, 4096);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(f.Dump("doc") == whole.Dump("doc"));
}

INSTANTIATE_TEST_SUITE_P(
    Stages, IngestFailureTest,
    ::testing::Combine(::testing::Values(Stage::kIngest, Stage::kSerialize),
                       ::testing::Values(absl::StatusCode::kUnavailable,
                                         absl::StatusCode::kResourceExhausted)),
    ParamName);

}  // namespace
}  // namespace recollect::engine
