#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "base/clock.h"
#include "engine/ingest/resume_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/tokenizer.h"
#include "tests/engine/ingest/ingest_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

using ::testing::HasSubstr;

TEST(IngestTest, ShutdownCommitsWhatIsEncoded) {
  const std::string text = SampleText(20000, 10);
  TestOptions options = SmallOptions();
  options.commit_tokens = 1 << 20;  // never by itself
  auto store = std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore());
  auto engine = MakeEngine(options, std::make_unique<ForwardingStore>(store));
  auto stream = *engine->BeginIngest("doc", false, {});
  ASSERT_TRUE(Append(*stream, 0, text.substr(0, 15000)).ok());
  engine->Shutdown(absl::InfinitePast());
  EXPECT_EQ(Append(*stream, 15000, "more").status().code(), absl::StatusCode::kUnavailable);
  engine.reset();
  stream.reset();  // after its engine
  engine = MakeEngine(options, std::make_unique<ForwardingStore>(store));
  EXPECT_GT((*engine->BeginIngest("doc", false, {}))->status().committed_offset, 8000);
}

// Tells when it begins to commit, and goes on when it is told to.
class GatedCommits : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  absl::Status CommitIngest(OwnerId owner, const store::IngestBatch& batch) override {
    begun.set_value();
    go_on.get_future().wait();
    return ForwardingStore::CommitIngest(owner, batch);
  }
  std::promise<void> begun, go_on;
};

TEST(IngestTest, PiecesThatArriveWhileTheEngineStopsAreAnswered) {
  auto owned = std::make_unique<GatedCommits>(store::CreateMemoryStore());
  GatedCommits* const store = owned.get();
  auto engine = MakeEngine(SmallOptions(), std::move(owned));
  auto stream = *engine->BeginIngest("doc", /*from_tokens=*/true, {});
  ASSERT_TRUE(AppendTokens(*stream, 0, SampleTokens(300, 1)).ok());
  std::thread stopping([&] { engine->Shutdown(SteadyNow()); });
  store->begun.get_future().wait();
  // Until the thread that reads them, and commits, takes no more: then they are refused at once.
  int64_t sent = 0;
  std::atomic<int64_t> answered = 0;
  for (; answered == 0; ++sent) {
    stream->AppendTokens(300 + sent, {5}, [&](const auto&) { ++answered; });
  }
  store->go_on.set_value();
  stopping.join();
  EXPECT_EQ(answered, sent);
}

TEST(IngestTest, OpenIngestsHaveALimit) {
  TestOptions options = SmallOptions();
  options.max_ingests = 1;
  auto engine = MakeEngine(options);
  auto first = *engine->BeginIngest("a", /*from_tokens=*/true, {});
  EXPECT_THAT(engine->BeginIngest("b", /*from_tokens=*/true, {}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, "1 ingests are open, at most 1"));
  first = nullptr;
  // Its place is free once its thread has let go, for which a delete waits.
  EXPECT_TRUE(absl::IsNotFound(engine->DeleteDocument("a")));
  const absl::Status again = IngestTokens(*engine, "b", SampleTokens(10, 1)).status();
  EXPECT_TRUE(again.ok()) << again;
}

// The account of a document that is kept as text is asked without the scheduler's help.
TEST(IngestTest, TextWaitsForItsAccountAndGoesOn) {
  TestOptions options = SmallOptions();
  options.session_ttl = absl::Milliseconds(200);  // a quarter of which is how often it is asked
  auto engine = MakeEngine(options, nullptr, TextModelForTest());
  const auto account = std::make_shared<access::Account>(
      access::Key{"ci", "", access::Right::kFull, "", {.tokens_per_minute = 600000}});
  account->SpendTokens(601000);  // a tenth of a second more than it has
  auto stream = *engine->BeginIngest("doc", /*from_tokens=*/true, {}, {.account = account});
  const absl::Time begin = SteadyNow();
  ASSERT_TRUE(AppendTokens(*stream, 0, SampleTokens(1000, 1)).ok());
  EXPECT_GT(SteadyNow() - begin, absl::Milliseconds(50));
  EXPECT_TRUE(Finish(*stream).ok());
}

TEST(IngestTest, CancelledIsAnsweredAtOnceAndComputesNoFurther) {
  std::promise<void> begun;
  int turns = 0;
  auto engine = MakeEngine();
  engine->scheduler_for_test().ObserveForTest([&](TurnKind, int64_t) {
    if (++turns == 1) begun.set_value();
  });
  auto stream = *engine->BeginIngest("doc", /*from_tokens=*/true, {});
  constexpr int64_t kTokens = 200000;
  std::promise<absl::Status> answered;
  stream->AppendTokens(0, SampleTokens(kTokens, 1),
                       [&](const auto& status) { answered.set_value(status.status()); });
  begun.get_future().wait();
  stream->handle()->Cancel();
  EXPECT_EQ(answered.get_future().get().code(), absl::StatusCode::kCancelled);
  const std::shared_ptr<RequestHandle> handle = stream->handle();
  stream = nullptr;
  handle->Cancel();  // harmless
  // Another one has the engine to itself.
  const int64_t before = engine->stats().ingested_tokens;
  ASSERT_TRUE(IngestTokens(*engine, "other", SampleTokens(1000, 2)).ok());
  EXPECT_LE(engine->stats().ingested_tokens - before, 1000 + SmallOptions().ingest_slice_tokens);
  EXPECT_LT(before, kTokens);
}

TEST(IngestTest, APieceBeforeTheAnswerToTheOneBeforeIsRefusedAndChangesNothing) {
  auto engine = MakeEngine();
  auto stream = *engine->BeginIngest("doc", /*from_tokens=*/true, {});
  const std::vector<int32_t> tokens = SampleTokens(20000, 1);
  std::promise<absl::Status> first, early, next;
  stream->AppendTokens(0, tokens, [&](const auto& s) { first.set_value(s.status()); });
  stream->AppendTokens(20000, {5}, [&](const auto& s) { early.set_value(s.status()); });
  EXPECT_THAT(early.get_future().get(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "offset 20000 is not answered"));
  EXPECT_EQ(first.get_future().get(), absl::OkStatus());
  stream->AppendTokens(20000, {5}, [&](const auto& s) { next.set_value(s.status()); });
  EXPECT_EQ(next.get_future().get(), absl::OkStatus());
  EXPECT_EQ(stream->status().accepted_offset, 20001);
}

TEST(IngestTest, TheSameContentAgainIsASuccess) {
  StoreAndEngine f;
  const std::string text = SampleText(5000, 11);
  const auto first = Ingest(*f.engine, "doc", text);
  ASSERT_TRUE(first.ok());
  const auto again = Ingest(*f.engine, "doc", text, 333);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->owner, first->owner);
  const auto expect = [&](const std::string& other, const char* fragment) {
    EXPECT_THAT(Ingest(*f.engine, "doc", other, 700).status(),
                StatusIs(absl::StatusCode::kAlreadyExists, fragment));
  };
  std::string other = text;
  other[2345] = other[2345] == 'x' ? 'y' : 'x';
  expect(other, "offset 2345");
  expect(text.substr(0, 4000), "4000");
  expect(text + "!", std::to_string(text.size() + 1).c_str());
  EXPECT_EQ(IngestTokens(*f.engine, "doc", SampleTokens(10, 1)).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(IngestTest, BadInputIsNamed) {
  StoreAndEngine f;
  const auto expect = [](const absl::Status& status, absl::StatusCode code, const char* fragment) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
  };
  expect(Ingest(*f.engine, "empty", "").status(), absl::StatusCode::kInvalidArgument, "no tokens");
  EXPECT_TRUE(f.engine->ListIngests()->empty());
  expect(Ingest(*f.engine, "utf8", SampleText(9000, 1) + "\xc3(").status(),
         absl::StatusCode::kInvalidArgument, std::to_string(SampleText(9000, 1).size()).c_str());
  expect(IngestTokens(*f.engine, "ids", {5, 1}).status(), absl::StatusCode::kInvalidArgument,
         "token 1: id 1 is reserved");
  expect(f.engine->BeginIngest("", false, {}).status(), absl::StatusCode::kInvalidArgument, "id");
  expect(f.engine->BeginIngest(std::string(300, 'a'), false, {}).status(),
         absl::StatusCode::kInvalidArgument, "300");
  expect(f.engine->BeginIngest("a\nb", false, {}).status(), absl::StatusCode::kInvalidArgument,
         "\"a\\u{a}b\", commas and control");
  expect(f.engine->BeginIngest("a,b", false, {}).status(), absl::StatusCode::kInvalidArgument,
         "\"a,b\", commas");
  expect(f.engine->BeginIngest("a\xff", false, {}).status(), absl::StatusCode::kInvalidArgument,
         "id: not UTF-8 at byte 1");

  auto stream = *f.engine->BeginIngest("mixed", false, {});
  expect(AppendTokens(*stream, 0, {5}).status(), absl::StatusCode::kInvalidArgument, "takes text");
  EXPECT_TRUE(SendText(*stream, "that is not the end", 4).ok());
}

TEST(IngestTest, AStreamThatCommittedNothingLeavesNothing) {
  StoreAndEngine f;
  EXPECT_EQ(Ingest(*f.engine, "doc", "caf\xc3(").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(f.engine->ListIngests()->empty());
  {
    // The id takes input of another kind; this one is given up by its caller.
    auto stream = *f.engine->BeginIngest("doc", /*from_tokens=*/true, {});
    stream->AppendTokens(0, SampleTokens(10, 1), [](const auto&) {});
  }
  EXPECT_TRUE(Ingest(*f.engine, "doc", "the whale").ok());
  auto open = *f.engine->BeginIngest("open", false, {});
  EXPECT_EQ(f.engine->ListIngests()->size(), 1u);
  f.engine->Shutdown(absl::InfinitePast());
  EXPECT_TRUE(f.store->ListIngests()->empty());
}

TEST(IngestTest, TextWithoutATokenizerIsRefusedAndLeavesNothing) {
  const std::string directory = ::testing::TempDir() + "/ingest_ids";
  WriteTinyModel(directory, TinyConfig(), 1);
  std::filesystem::remove(directory + "/tokenizer.model");
  auto engine = MakeEngine(SmallOptions(), nullptr, *model::CpuModel::Load(directory));
  EXPECT_THAT(
      engine->BeginIngest("doc", /*from_tokens=*/false, {}).status(),
      StatusIs(absl::StatusCode::kFailedPrecondition, "\"doc\": the model has no tokenizer"));
  EXPECT_TRUE(engine->ListIngests()->empty());
  EXPECT_TRUE(IngestTokens(*engine, "doc", {5}).ok());
}

// Its documents are deleted right after an ingest has met them.
class DeletingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  absl::StatusOr<store::IngestProgress> Begin(const store::IngestProgress& asked) override {
    auto progress = ForwardingStore::Begin(asked);
    if (absl::IsAlreadyExists(progress.status())) {
      EXPECT_TRUE(Remove(asked.id).ok());
    }
    return progress;
  }
};

TEST(IngestTest, ADocumentThatIsDeletedAsAnIngestMeetsItIsALostRace) {
  auto engine =
      MakeEngine(SmallOptions(), std::make_unique<DeletingStore>(store::CreateMemoryStore()));
  ASSERT_TRUE(IngestTokens(*engine, "doc", {5}).ok());
  EXPECT_EQ(IngestTokens(*engine, "doc", {5}).status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(IngestTokens(*engine, "doc", {5}).ok());
}

TEST(IngestTest, AnUnfinishedIngestBelongsToItsModel) {
  auto store = std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore());
  {
    auto engine = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store));
    ASSERT_TRUE(Ingest(*engine, "done", SampleText(500, 1)).ok());
    auto stream = *engine->BeginIngest("half", false, {});
    ASSERT_TRUE(Append(*stream, 0, SampleText(9000, 2)).ok());
  }
  auto other =
      MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), TinyModelForTest(2));
  for (const absl::Status& status : {other->BeginIngest("half", false, {}).status(),
                                     other->BeginIngest("done", false, {}).status(),
                                     other->OpenSession({.mounts = {"done"}}).status()}) {
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kFailedPrecondition, TinyModelForTest()->fingerprint()));
    EXPECT_THAT(std::string(status.message()), HasSubstr(TinyModelForTest(2)->fingerprint()));
  }
  EXPECT_TRUE(other->DeleteDocument("half").ok());
  EXPECT_TRUE(Ingest(*other, "half", SampleText(500, 1)).ok());
}

// A right checksum says who wrote it, not that its numbers fit.
TEST(IngestTest, AResumeStateThatDoesNotFitIsDataLoss) {
  StoreAndEngine f;
  const std::string text = SampleText(6000, 9);
  {
    // Another engine, which has written its last commit when it is gone.
    const auto writer = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(f.store));
    const auto stream = *writer->BeginIngest("d", /*from_tokens=*/false, {});
    ASSERT_EQ(Append(*stream, 0, text).status(), absl::OkStatus());
  }
  const auto progress =
      f.store->BeginIngest("d", f.engine->model().fingerprint(), /*from_tokens=*/false, "");
  ASSERT_TRUE(progress.ok()) << progress.status();
  const ResumeState kept = *DecodeResumeState(progress->resume_state);
  ASSERT_FALSE(kept.pending_ids.empty());
  ASSERT_FALSE(kept.local_state.empty());
  const auto resume = [&](const ResumeState& state) {
    store::IngestBatch batch;
    batch.input_offset = progress->input_offset;
    batch.resume_state = EncodeResumeState(state);
    EXPECT_EQ(f.store->CommitIngest(progress->owner, batch), absl::OkStatus());
    return f.engine->BeginIngest("d", /*from_tokens=*/false, {}).status();
  };
  const auto expect_refused = [&](const char* fragment, const auto& damage) {
    ResumeState state = kept;
    damage(state);
    EXPECT_THAT(resume(state), StatusIs(absl::StatusCode::kDataLoss, fragment));
  };
  expect_refused("stands at token", [](ResumeState& s) { ++s.tokens; });
  expect_refused("waiting token 0 has id 320", [](ResumeState& s) { s.pending_ids[0] = 320; });
  expect_refused("waiting token 0 has id -1", [](ResumeState& s) { s.pending_ids[0] = -1; });
  expect_refused("and -1 bytes", [](ResumeState& s) { s.pending_bytes[0] = -1; });
  expect_refused("bytes of text, the records", [](ResumeState& s) { ++s.pending_bytes[0]; });
  expect_refused("bytes of text, the records", [](ResumeState& s) { s.text_end = INT64_MAX; });
  expect_refused("positions, expected", [&](ResumeState& s) {
    const model::ModelConfig& config = f.engine->model().config();
    s.local_state = model::LocalState::Create(config, config.local, config.n_low).Serialize();
  });
  EXPECT_EQ(resume(kept), absl::OkStatus());
}

}  // namespace
}  // namespace recollect::engine
