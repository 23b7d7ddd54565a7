// The part of the suite over the engine and its fake that is about texts which become documents:
// those of sessions, and of single generations.
#include <future>

#include "tests/engine/engine_contract.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using ::testing::MatchesRegex;

class SaveContractTest : public EngineContractTest {
 protected:
  absl::StatusOr<store::DocumentInfo> Save(SessionId session, const SaveAs& as,
                                           std::shared_ptr<access::Account> account = nullptr) {
    std::promise<absl::StatusOr<store::DocumentInfo>> done;
    engine_->SaveSession(
        session, as, {.account = std::move(account)},
        [&](absl::StatusOr<store::DocumentInfo> document) { done.set_value(std::move(document)); });
    return done.get_future().get();
  }
  // What the session has said after the prompt.
  std::string Say(SessionId session, const std::string& prompt) {
    GenerateRequest request = Ask(5);
    request.session = session;
    request.prompt.text = prompt;
    const auto events = Run(request);
    EXPECT_THAT(events->status, IsOk());
    return prompt + events->text;
  }
  static GenerateRequest Saving(const std::string& prompt, const SaveAs& as) {
    GenerateRequest request = Ask(5);
    request.prompt.text = prompt;
    request.save_as = as;
    return request;
  }
  std::string TextOf(const std::string& id) {
    const auto info = engine_->GetDocument(id);
    if (!info.ok()) return info.status().ToString();
    return engine_->ReadText(id, 0, info->bytes).value_or("");
  }
  void ExpectRefusedBeforeTheFirstToken(const GenerateRequest& request, StatusCode code,
                                        const std::string& message) {
    const auto events = Run(request);
    EXPECT_THAT(events->status, StatusIs(code, message));
    EXPECT_EQ(events->log, "e");
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, SaveContractTest, ::testing::ValuesIn(kImplementations), NameOf);

TEST_P(SaveContractTest, ASessionsTextBecomesADocumentThatLaterOnesMount) {
  ASSERT_THAT(Ingest(*engine_, "other", SampleText(500, 1)), IsOk());
  const SessionId session = engine_->OpenSession({.mounts = {"other"}}).value();
  std::string said = Say(session, "call me");
  const auto saved = Save(session, {.id = "talk"});
  ASSERT_THAT(saved, IsOk());
  EXPECT_EQ(saved->id, "talk");
  EXPECT_GT(saved->tokens, 0);
  EXPECT_EQ(TextOf("talk"), said) << "without what was mounted";
  EXPECT_EQ(Save(session, {.id = "talk"})->owner, saved->owner) << "nothing has changed";
  said += Say(session, " some years ago");
  EXPECT_THAT(Save(session, {.id = "talk"}), IsOk()) << "it has grown";
  EXPECT_EQ(TextOf("talk"), said);
  const auto later = Retrieve(*engine_, {{.mounts = {"talk"}}, {"some years ago", {}}});
  ASSERT_THAT(later, IsOk());
  EXPECT_EQ(later->front().hits.front().document, "talk");
  EXPECT_THAT(Generate(*engine_, Ask(3, {"talk"})).status, IsOk());
}

TEST_P(SaveContractTest, TokensAreSavedAsTheirText) {
  if (std::string(GetParam().name) == "Fake") GTEST_SKIP() << "its tokens are no tokenizer's";
  const std::vector<int32_t> tokens = Score(*engine_, {{}, {}, {"a ship", {}}, {}})->tokens;
  const SessionId session = engine_->OpenSession({}).value();
  ScoreRequest scored;
  scored.session = session;
  scored.prompt.tokens = tokens;
  ASSERT_THAT(Score(*engine_, scored), IsOk());
  const std::string said = Say(session, " sails");
  ASSERT_THAT(Save(session, {.id = "tokens"}), IsOk());
  EXPECT_EQ(TextOf("tokens"), "a ship" + said);
}

TEST_P(SaveContractTest, APromptThatWasBrokenOffIsNotSaved) {
  const SessionId session = engine_->OpenSession({}).value();
  const std::string said = Say(session, "call me");
  GenerateRequest late = Ask(5);
  late.session = session;
  late.prompt.text = " never";
  late.deadline = absl::InfinitePast();
  EXPECT_THAT(Generate(*engine_, late).status, StatusIs(StatusCode::kDeadlineExceeded, ""));
  ASSERT_THAT(Save(session, {.id = "talk"}), IsOk());
  EXPECT_EQ(TextOf("talk"), said);
}

TEST_P(SaveContractTest, WhatASessionCannotBeSavedAsIsSaid) {
  const SessionId session = engine_->OpenSession({}).value();
  EXPECT_THAT(Save(session, {.id = "talk"}), StatusIs(StatusCode::kFailedPrecondition, "no text"));
  const std::string said = Say(session, "call me");
  EXPECT_THAT(Save(SessionId{12345}, {.id = "talk"}), StatusIs(StatusCode::kNotFound, "12345"));
  EXPECT_THAT(Save(session, {.id = ""}), StatusIs(StatusCode::kInvalidArgument, "id: bytes: 0"));
  EXPECT_THAT(Save(session, {.id = "a,b"}), StatusIs(StatusCode::kInvalidArgument, "commas"));
  ASSERT_THAT(Ingest(*engine_, "talk", "another text"), IsOk());
  EXPECT_THAT(Save(session, {.id = "talk"}), StatusIs(StatusCode::kAlreadyExists, "12 bytes"));
  EXPECT_EQ(TextOf("talk"), "another text");
  EXPECT_THAT(Save(session, {.id = "talk", .replace = true}), IsOk());
  EXPECT_EQ(TextOf("talk"), said);
  {
    const auto writer = Begin("busy");
    EXPECT_THAT(Save(session, {.id = "busy"}), StatusIs(StatusCode::kAborted, ""));
    ASSERT_THAT(Append(*writer, 0, SampleText(40000, 1)), IsOk());
    ASSERT_THAT(Commit(*writer), IsOk());
  }
  EXPECT_THAT(Save(session, {.id = "busy"}),
              StatusIs(StatusCode::kFailedPrecondition, "an unfinished ingest"));
  EXPECT_THAT(engine_->GetDocument("busy"), StatusIs(StatusCode::kNotFound, ""));
}

TEST_P(SaveContractTest, ASessionThatIsUsedIsNotSaved) {
  GenerateRequest request = Ask(1);
  request.session = engine_->OpenSession({}).value();
  const Running running = Start(request);
  EXPECT_THAT(Save(*request.session, {.id = "talk"}), StatusIs(StatusCode::kAborted, "runs on"));
  running.handle->Cancel();
  EXPECT_THAT(running.events->Wait(), StatusIs(StatusCode::kCancelled, ""));
  EXPECT_THAT(Save(*request.session, {.id = "talk"}), IsOk()) << "it goes on";
}

TEST_P(SaveContractTest, PromptAndAnswerBecomeADocumentTurnByTurn) {
  std::string text = "call me";
  for (int turn = 0; turn < 3; ++turn) {
    const auto events = Run(Saving(text, {.id = "talk"}));
    ASSERT_THAT(events->status, IsOk());
    EXPECT_THAT(events->log, MatchesRegex("t+sd"));
    ASSERT_THAT(events->saved, IsOk());
    text += events->text;
    EXPECT_EQ(events->saved->bytes, std::ssize(text));
    EXPECT_EQ(TextOf("talk"), text);
    text += " and then";
  }
}

TEST_P(SaveContractTest, WhatIsWrongWithADocumentIsSaidBeforeTheFirstToken) {
  ExpectRefusedBeforeTheFirstToken(Saving("call me", {.id = ""}), StatusCode::kInvalidArgument,
                                   "save_as: id: bytes: 0, limit 1 to 256");
  ASSERT_THAT(Ingest(*engine_, "talk", "another text"), IsOk());
  ExpectRefusedBeforeTheFirstToken(Saving("call me", {.id = "talk"}), StatusCode::kAlreadyExists,
                                   "save_as: document \"talk\" exists");
  EXPECT_EQ(TextOf("talk"), "another text");
  const auto replaced = Run(Saving("call me", {.id = "talk", .replace = true}));
  EXPECT_THAT(replaced->saved, IsOk());
  EXPECT_EQ(TextOf("talk"), "call me" + replaced->text);
  const auto writer = Begin("busy");
  ExpectRefusedBeforeTheFirstToken(Saving("call me", {.id = "busy"}), StatusCode::kAborted,
                                   "save_as: ");
  GenerateRequest within = Saving("call me", {.id = "new"});
  within.session = engine_->OpenSession({}).value();
  ExpectRefusedBeforeTheFirstToken(within, StatusCode::kInvalidArgument, "save_as: set in an open");
}

TEST_P(SaveContractTest, TheQuotaForDocumentsHoldsBeforeTheFirstToken) {
  GenerateRequest request = Saving("call me", {.id = "second"});
  request.account = std::make_shared<access::Account>(
      access::Key{"ci", "", access::Right::kFull, "", {.max_documents = 1}});
  ASSERT_THAT(Ingest(*engine_, "first", "text"), IsOk());
  ExpectRefusedBeforeTheFirstToken(request, StatusCode::kResourceExhausted, "its quota is 1");
}

// While it is generated, nobody else may begin to write that document.
TEST_P(SaveContractTest, AGenerationThatIsCancelledSavesNothing) {
  const Running running = Start(Saving("call me", {.id = "talk"}));
  EXPECT_THAT(engine_->BeginIngest("talk", false, {}), StatusIs(StatusCode::kAborted, ""));
  running.handle->Cancel();
  EXPECT_THAT(running.events->Wait(), StatusIs(StatusCode::kCancelled, ""));
  EXPECT_THAT(running.events->log, MatchesRegex("t+e"));
  EXPECT_THAT(engine_->GetDocument("talk"), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(Run(Saving("call me", {.id = "talk"}))->saved, IsOk()) << "the id is free again";
}

// Too many bytes are seen when they come: the answer is whole, and says so.
TEST_P(SaveContractTest, AnAnswerIsWholeEvenIfItIsNotSaved) {
  GenerateRequest request = Saving("call me", {.id = "talk"});
  request.account = std::make_shared<access::Account>(
      access::Key{"ci", "", access::Right::kFull, "", {.max_bytes = 3}});
  const auto events = Run(request);
  EXPECT_THAT(events->status, IsOk());
  EXPECT_THAT(events->log, MatchesRegex("t+sd"));
  EXPECT_THAT(events->saved, StatusIs(StatusCode::kResourceExhausted, "saving \"talk\""));
  EXPECT_THAT(engine_->GetDocument("talk"), StatusIs(StatusCode::kNotFound, ""));
}

class ReadOnlyStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  absl::StatusOr<store::IngestProgress> Begin(const store::IngestProgress&) override {
    return absl::UnavailableError("the store is read-only");
  }
};

TEST(SaveTest, AStoreThatTakesNothingIsSaidBeforeTheFirstToken) {
  const auto engine =
      MakeEngine(SmallOptions(), std::make_unique<ReadOnlyStore>(store::CreateMemoryStore()));
  GenerateRequest request;
  request.prompt.text = "call me";
  request.save_as = {.id = "talk"};
  const auto events = std::make_shared<Recorder>();
  engine->Generate(request, events);
  EXPECT_THAT(events->Wait(),
              StatusIs(StatusCode::kUnavailable, "save_as: the store is read-only"));
  EXPECT_EQ(events->log, "e");
}

std::shared_ptr<Recorder> StartSaving(Engine& engine, const std::string& prompt,
                                      const std::string& id,
                                      std::shared_ptr<RequestHandle>* handle = nullptr) {
  GenerateRequest request;
  request.prompt.text = prompt;
  request.max_tokens = 5;
  request.ignore_eos = true;
  request.save_as = {.id = id};
  const auto events = std::make_shared<Recorder>();
  const auto running = engine.Generate(request, events);
  if (handle != nullptr) *handle = running;
  return events;
}

// However long an answer takes, it is in nobody's way; at its end it waits for a place.
TEST(SaveTest, AnAnswerTakesAPlaceAmongTheIngestsWhenItIsWritten) {
  TestOptions options = SmallOptions();
  options.max_ingests = 1;
  const auto engine = MakeEngine(options);
  auto book = engine->BeginIngest("book", false, {});
  ASSERT_THAT(book, IsOk());
  std::shared_ptr<RequestHandle> third;
  const std::vector<std::shared_ptr<Recorder>> events = {
      StartSaving(*engine, "call me", "a"), StartSaving(*engine, "call her", "b"),
      StartSaving(*engine, "call him", "c", &third)};
  for (const auto& one : events) {
    for (int64_t n = one->count; n < 5; n = one->count) one->count.wait(n);
  }
  for (int round = 0; round < 3; ++round) third->Cancel();  // also one that does not wait yet
  EXPECT_THAT(engine->GetDocument("a"), StatusIs(StatusCode::kNotFound, ""));
  book->reset();
  for (const auto& one : {events[0], events[1]}) {
    EXPECT_THAT(one->Wait(), IsOk());
    EXPECT_THAT(one->saved, IsOk());
  }
  EXPECT_EQ(engine->GetDocument("b")->bytes, std::ssize("call her" + events[1]->text));
  events[2]->Wait().IgnoreError();
  EXPECT_THAT(engine->GetDocument("c"), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(engine->BeginIngest("another", false, {}), IsOk()) << "the place is free again";
}

TEST(SaveTest, WhatWaitsForAPlaceMeetsTheEnginesEnd) {
  TestOptions options = SmallOptions();
  options.max_ingests = 1;
  const auto engine = MakeEngine(options);
  const auto book = engine->BeginIngest("book", false, {});
  const auto events = StartSaving(*engine, "call me", "a");
  for (int64_t n = events->count; n < 5; n = events->count) events->count.wait(n);
  engine->Shutdown(absl::InfinitePast());
  events->Wait().IgnoreError();
  EXPECT_FALSE(events->saved.ok());
}

TEST(SaveTest, AConversationThatGrowsIsReadFromItsEndAlone) {
  const auto engine = MakeEngine();
  std::string text = SampleText(24000, 3);
  auto events = StartSaving(*engine, text, "talk");
  ASSERT_THAT(events->Wait(), IsOk());
  ASSERT_THAT(events->saved, IsOk());
  text += events->text + " and then";
  const int64_t read = engine->stats().ingested_tokens;
  events = StartSaving(*engine, text, "talk");
  ASSERT_THAT(events->Wait(), IsOk());
  ASSERT_THAT(events->saved, IsOk());
  EXPECT_GT(events->saved->tokens, 3000);
  EXPECT_LE(engine->stats().ingested_tokens - read, 300);
  text += events->text;
  EXPECT_EQ(engine->ReadText("talk", 0, events->saved->bytes).value(), text);
}

}  // namespace
}  // namespace recollect::engine
