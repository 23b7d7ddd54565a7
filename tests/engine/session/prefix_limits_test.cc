// What is refused of prefixes, naming what does not fit.
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "tests/engine/session/prefix_testing.h"
#include "tests/support/eventually.h"

namespace recollect::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PrefixLimitsTest : public PrefixTest {
 protected:
  template <typename Matcher>
  static void Expect(const absl::Status& status, absl::StatusCode code, const Matcher& message) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), message);
  }
  // Ended sessions are freed in the background.
  static void WaitUntilFreed(const Engine& engine) {
    EXPECT_TRUE(Eventually([&] { return engine.stats().state_bytes == 0; }));
  }
};

TEST_F(PrefixLimitsTest, AnotherPatternIsRefusedNamingBoth) {
  auto engine = Make();
  SessionOptions dense;
  dense.dilation = 1;
  const auto both = AllOf(HasSubstr("document \"doc\""), HasSubstr(default_.Text()),
                          HasSubstr(SessionPatterns(*model_, dense)->Text()));
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(100, 1)).ok());
  dense.mounts = {"doc"};
  Expect(engine->OpenSession(dense).status(), absl::StatusCode::kFailedPrecondition, both);
  WaitUntilFreed(*engine);
  // Nor is it made anew under another.
  dense.mounts.clear();
  Expect(engine->BeginIngest("doc", true, dense).status(), absl::StatusCode::kFailedPrecondition,
         both);
  {
    auto stream = *engine->BeginIngest("half", true, {});
    std::promise<void> appended;
    stream->AppendTokens(0, SampleTokens(2000, 1), [&](auto) { appended.set_value(); });
    appended.get_future().wait();
  }
  Expect(engine->BeginIngest("half", true, dense).status(), absl::StatusCode::kFailedPrecondition,
         HasSubstr(default_.Text()));
  dense.dilation = 3;
  Expect(engine->BeginIngest("new", true, dense).status(), absl::StatusCode::kInvalidArgument,
         HasSubstr("dilation is 3, the checkpoint is adapted to -1, 1, 4, 16, 64"));
}

TEST_F(PrefixLimitsTest, AnotherModelIsRefusedNamingBoth) {
  std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
  const std::string fingerprint = model_->fingerprint();
  auto engine = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), model_);
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(100, 1)).ok());
  model::ModelConfig config = TinyRatPlusConfig();
  config.rope_base = 20000;
  model_ = LoadRatPlusForTest("other", config);
  engine = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), model_);
  Expect(engine->OpenSession({.mounts = {"doc"}}).status(), absl::StatusCode::kFailedPrecondition,
         AllOf(HasSubstr(fingerprint), HasSubstr(model_->fingerprint())));
  // The flagship lists it and mounts none either.
  engine = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store));
  EXPECT_EQ(engine->ListDocuments("", 10)->front().pattern, default_.Text());
  Expect(engine->OpenSession({.mounts = {"doc"}}).status(), absl::StatusCode::kFailedPrecondition,
         HasSubstr(fingerprint));
}

TEST_F(PrefixLimitsTest, OnePrefixBeginsASession) {
  auto engine = Make();
  for (const char* id : {"a", "b"}) {
    ASSERT_TRUE(IngestTokens(*engine, id, SampleTokens(100, 1)).ok());
  }
  const auto second = HasSubstr("\"b\" cannot follow \"a\", which the session begins with");
  Expect(engine->OpenSession({.mounts = {"a", "b"}}).status(),
         absl::StatusCode::kFailedPrecondition, second);
  GenerateRequest request = TurnRequest(*engine->OpenSession({}), {5}, 1);
  ASSERT_TRUE(Generate(*engine, request).status.ok());
  request.session_options.mounts = {"a"};  // behind what the session has
  Expect(Generate(*engine, request).status, absl::StatusCode::kInvalidArgument,
         HasSubstr("the options of an open session are fixed"));
  Expect(engine->OpenSession({.mounts = {"c"}}).status(), absl::StatusCode::kNotFound,
         HasSubstr("c"));
}

TEST_F(PrefixLimitsTest, IngestTakesAPatternAndNothingElse) {
  auto engine = Make();
  Expect(engine->BeginIngest("doc", false, {.mounts = {"a"}}).status(),
         absl::StatusCode::kInvalidArgument, HasSubstr("mounts"));
  SessionOptions dense;
  dense.dilation = 16;
  Expect(MakeEngine()->BeginIngest("doc", false, dense).status(),
         absl::StatusCode::kInvalidArgument, HasSubstr("family drt ingests under its own pattern"));
  Expect(Ingest(*engine, "empty", "").status(), absl::StatusCode::kInvalidArgument,
         HasSubstr("no tokens"));
  EXPECT_TRUE(engine->ListIngests()->empty());
  ASSERT_TRUE(Ingest(*engine, "doc", "the whale").ok());
  EXPECT_TRUE(Ingest(*engine, "doc", "the whale").ok());  // again
  Expect(Ingest(*engine, "doc", "the ship").status(), absl::StatusCode::kAlreadyExists,
         HasSubstr("first difference at offset 4"));
}

TEST_F(PrefixLimitsTest, ADocumentThatEndsWhereALongerOneWasCommittedIsRefused) {
  auto engine = Make();
  int64_t committed = 0;
  {
    auto stream = *engine->BeginIngest("doc", true, {});
    std::promise<void> appended;
    stream->AppendTokens(0, SampleTokens(2000, 1), [&](auto) { appended.set_value(); });
    appended.get_future().wait();
    while (committed == 0) committed = stream->status().committed_offset;
  }
  auto stream = *engine->BeginIngest("doc", true, {});
  ASSERT_GE(stream->status().committed_offset, committed);
  std::promise<absl::Status> finished;
  stream->Finish([&](absl::StatusOr<store::DocumentInfo> s) { finished.set_value(s.status()); });
  Expect(finished.get_future().get(), absl::StatusCode::kInvalidArgument,
         HasSubstr("ends where its unfinished ingest was committed"));
}

TEST_F(PrefixLimitsTest, AMountBeyondTheStateBudgetIsRefusedAndHoldsNothing) {
  std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
  SessionOptions dense;
  dense.dilation = 1;
  int64_t bytes;
  {
    auto engine = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), model_);
    const auto info = IngestTokens(*engine, "doc", SampleTokens(1000, 1), dense);
    ASSERT_TRUE(info.ok()) << info.status();
    bytes = info->state_bytes;
  }
  dense.mounts = {"doc"};
  TestOptions options = SmallOptions();
  options.state_budget_bytes = bytes;  // an eighth too little
  auto engine = MakeEngine(options, std::make_unique<ForwardingStore>(store), model_);
  Expect(engine->OpenSession(dense).status(), absl::StatusCode::kResourceExhausted,
         AllOf(HasSubstr("document \"doc\""), HasSubstr(absl::StrCat(bytes + bytes / 8)),
               HasSubstr(absl::StrCat("the budget is ", bytes))));
  EXPECT_EQ(engine->stats().state_bytes, 0);
  // Room for two, not for three.
  options.state_budget_bytes = 3 * bytes;
  engine = MakeEngine(options, std::make_unique<ForwardingStore>(store), model_);
  const SessionId first = *engine->OpenSession(dense);
  EXPECT_GE(engine->stats().state_bytes, bytes * 9 / 10);
  ASSERT_TRUE(engine->OpenSession(dense).ok());
  EXPECT_EQ(engine->OpenSession(dense).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(engine->CloseSession(first).ok());
  const absl::Time end = absl::Now() + absl::Seconds(20);
  absl::Status third;
  do {
    third = engine->OpenSession(dense).status();
  } while (!third.ok() && absl::Now() < end);
  EXPECT_TRUE(third.ok()) << third;
}

// The budget ends in the middle of a message, whose sender must hear of it, too.
TEST_F(PrefixLimitsTest, EveryMessageOfAnIngestThatFailsIsAnswered) {
  SessionOptions dense;
  dense.dilation = 1;
  TestOptions options = SmallOptions();
  options.state_budget_bytes = 1;
  auto engine = MakeEngine(options, nullptr, model_);
  const std::string text(256 << 10, 'x');
  Expect(Ingest(*engine, "doc", text, 256 << 10, dense).status(),
         absl::StatusCode::kResourceExhausted, HasSubstr("the budget is 1"));
}

TEST_F(PrefixLimitsTest, AMountIsNotReadForACallerWhoHasGone) {
  auto engine = Make();
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(100, 1)).ok());
  GenerateRequest late = After("doc", {}, {5}, 8);
  late.deadline = SteadyNow() - absl::Seconds(1);
  EXPECT_EQ(Generate(*engine, late).status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine->stats().prefix_mounts, 0);
}

TEST_F(PrefixLimitsTest, AnIngestStaysInTheStateBudgetAndResumesInALargerOne) {
  std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
  SessionOptions dense;
  dense.dilation = 1;
  const std::vector<int32_t> tokens = SampleTokens(3000, 2);
  TestOptions options = SmallOptions();
  options.state_budget_bytes = 2000 * 2 * 32 * 4 * 3;  // keys and values, fp32, of every layer
  {
    auto engine = MakeEngine(options, std::make_unique<ForwardingStore>(store), model_);
    Expect(IngestTokens(*engine, "doc", tokens, dense).status(),
           absl::StatusCode::kResourceExhausted,
           HasSubstr(absl::StrCat("the budget is ", options.state_budget_bytes)));
    EXPECT_EQ(engine->GetDocument("doc").status().code(), absl::StatusCode::kNotFound);
    EXPECT_GT(engine->ListIngests()->front().tokens, 0);
    WaitUntilFreed(*engine);
  }
  auto engine = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), model_);
  ASSERT_TRUE(IngestTokens(*engine, "doc", tokens, dense).ok());
  EXPECT_EQ(Generate(*engine, After("doc", dense, {5}, 8)).tokens, [&] {
    std::vector<int32_t> whole = tokens;
    whole.push_back(5);
    return Read(*engine, dense, whole, 8);
  }());
}

}  // namespace
}  // namespace recollect::engine
