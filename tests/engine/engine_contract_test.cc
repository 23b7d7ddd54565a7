// One suite over the engine and over its fake: documents, sessions, the answers to requests.
#include "tests/engine/engine_contract.h"

#include <future>

#include "base/clock.h"
#include "base/status.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

INSTANTIATE_TEST_SUITE_P(Engines, EngineContractTest, ::testing::ValuesIn(kImplementations),
                         NameOf);

// --- documents ---

TEST_P(EngineContractTest, UnknownDocumentsAreNotFoundAndNamed) {
  const auto missing = StatusIs(StatusCode::kNotFound, "moby");
  EXPECT_THAT(engine_->GetDocument("moby"), missing);
  EXPECT_THAT(engine_->ReadText("moby", 0, 0), missing);
  EXPECT_THAT(engine_->DeleteDocument("moby"), missing);
  EXPECT_THAT(engine_->OpenSession({.mounts = {"moby"}}), missing);
  EXPECT_THAT(Generate(*engine_, Ask(1, {"moby"})).status, missing);
  EXPECT_THAT(Score(*engine_, {{}, {.mounts = {"moby"}}, {"a", {}}, {}}), missing);
  EXPECT_THAT(Retrieve(*engine_, {{.mounts = {"moby"}}, {"a", {}}}), missing);
  EXPECT_EQ(engine_->stats().sessions, 0);
}

TEST_P(EngineContractTest, DocumentsAreListedInOrderOfIdsPageByPage) {
  for (const char* id : {"c", "a", "d", "b"}) ASSERT_THAT(Ingest(*engine_, id, "text"), IsOk());
  const auto ids = [&](const std::string& after, int64_t limit) {
    std::vector<std::string> found;
    const auto page = engine_->ListDocuments(after, limit).value();
    for (const store::DocumentInfo& info : page) found.push_back(info.id);
    return found;
  };
  EXPECT_THAT(ids("", 10), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(ids("", 2), ElementsAre("a", "b"));
  EXPECT_THAT(ids("b", 2), ElementsAre("c", "d"));
  EXPECT_THAT(ids("bb", 1), ElementsAre("c"));
  EXPECT_THAT(ids("d", 10), IsEmpty());
}

TEST_P(EngineContractTest, ARefreshGivesTheDocumentBack) {
  const auto refresh = [&](const std::string& id) {
    std::promise<absl::StatusOr<store::DocumentInfo>> done;
    engine_->RefreshDocument(id, {}, nullptr, [&](const auto& info) { done.set_value(info); });
    return done.get_future().get();
  };
  EXPECT_THAT(refresh("moby"), StatusIs(StatusCode::kNotFound, "moby"));
  const auto info = Ingest(*engine_, "d", "some text of a document");
  ASSERT_THAT(info, IsOk());
  const auto same = refresh("d");  // it is this model's
  ASSERT_THAT(same, IsOk());
  EXPECT_EQ(same->owner, info->owner);
  engine_->Shutdown(absl::InfinitePast());
  EXPECT_THAT(refresh("d"), StatusIs(StatusCode::kUnavailable, "shutting down"));
}

TEST_P(EngineContractTest, ADocumentGoesToAFileAndBack) {
  ASSERT_THAT(Ingest(*engine_, "d", "some text of a document"), IsOk());
  std::string file;
  {
    const auto out = engine_->ExportDocument("d");
    ASSERT_THAT(out, IsOk());
    EXPECT_EQ((*out)->document().id, "d");
    for (std::string bytes = (*out)->Next().value(); !bytes.empty(); bytes = (*out)->Next().value())
      file += bytes;
  }
  const auto import = [&](const std::string& id,
                          absl::string_view bytes) -> absl::StatusOr<store::DocumentInfo> {
    const auto in = engine_->ImportDocument(id);
    RETURN_IF_ERROR(in.status());
    RETURN_IF_ERROR((*in)->Append(bytes));
    return (*in)->Finish();
  };
  EXPECT_THAT(engine_->ExportDocument("moby"), StatusIs(StatusCode::kNotFound, "moby"));
  EXPECT_THAT(import("", file), StatusIs(StatusCode::kAlreadyExists, "'d'"));
  EXPECT_THAT(import("a,b", file), StatusIs(StatusCode::kInvalidArgument, "id"));
  EXPECT_THAT(import("e", "text"), StatusIs(StatusCode::kInvalidArgument, "not a document file"));
  EXPECT_THAT(import("e", file.substr(0, file.size() - 1)), StatusIs(StatusCode::kDataLoss, ""));
  EXPECT_THAT(engine_->GetDocument("e"), StatusIs(StatusCode::kNotFound, "e"));
  EXPECT_THAT(engine_->ListIngests().value(), IsEmpty());
  ASSERT_THAT(import("e", file), IsOk());
  EXPECT_EQ(engine_->ReadText("e", 5, 9).value(), "text");
  EXPECT_EQ(engine_->GetDocument("e")->sha256, engine_->GetDocument("d")->sha256);
}

TEST_P(EngineContractTest, TextIsReadByRangesWithinIt) {
  ASSERT_THAT(Ingest(*engine_, "d", "0123456789"), IsOk());
  EXPECT_EQ(engine_->ReadText("d", 0, 10).value(), "0123456789");
  EXPECT_EQ(engine_->ReadText("d", 3, 5).value(), "34");
  EXPECT_EQ(engine_->ReadText("d", 10, 10).value(), "");
  const auto outside = StatusIs(StatusCode::kOutOfRange, "");
  EXPECT_THAT(engine_->ReadText("d", 0, 11), outside);
  EXPECT_THAT(engine_->ReadText("d", -1, 2), outside);
  EXPECT_THAT(engine_->ReadText("d", 20, 30), outside);
  EXPECT_THAT(engine_->ReadText("d", 5, 4), outside);
}

TEST_P(EngineContractTest, ADeletedDocumentStaysWithTheSessionsThatMountIt) {
  const std::string text = SampleText(3000, 1);
  ASSERT_THAT(Ingest(*engine_, "d", text), IsOk());
  const SessionId session = engine_->OpenSession({.mounts = {"d"}}).value();
  ASSERT_THAT(engine_->DeleteDocument("d"), IsOk());
  EXPECT_THAT(engine_->DeleteDocument("d"), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(engine_->OpenSession({.mounts = {"d"}}), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(*engine_->ListDocuments("", 10), IsEmpty());
  // Another document takes its name.
  const auto other = Ingest(*engine_, "d", "another");
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(engine_->GetSession(session)->mounts, ElementsAre("d"));
  GenerateRequest request = Ask(3);
  request.session = session;
  request.with_retrievals = true;
  const Generated generated = Generate(*engine_, request);
  ASSERT_THAT(generated.status, IsOk());
  ASSERT_FALSE(generated.retrievals.empty());
  for (const Hit& hit : generated.retrievals[0].hits) {
    EXPECT_EQ(hit.document, "d");
    EXPECT_NE(hit.owner, other->owner);
  }
}

// --- sessions ---

TEST_P(EngineContractTest, UnknownSessionsAreNotFoundAndNamed) {
  const auto missing = StatusIs(StatusCode::kNotFound, "77");
  EXPECT_THAT(engine_->GetSession(SessionId{77}), missing);
  EXPECT_THAT(engine_->CloseSession(SessionId{77}), missing);
  GenerateRequest request = Ask(1);
  request.session = SessionId{77};
  EXPECT_THAT(Generate(*engine_, request).status, missing);
}

TEST_P(EngineContractTest, SessionsAreOpenUntilTheyAreClosed) {
  ASSERT_THAT(Ingest(*engine_, "b", "text"), IsOk());
  ASSERT_THAT(Ingest(*engine_, "a", "text"), IsOk());
  const SessionId first = engine_->OpenSession({.mounts = {"b", "a"}}).value();
  const SessionId second = engine_->OpenSession({}).value();
  EXPECT_NE(first, second);
  EXPECT_EQ(engine_->GetSession(first)->id, first);
  EXPECT_THAT(engine_->GetSession(first)->mounts, ElementsAre("b", "a"));
  EXPECT_THAT(engine_->GetSession(second)->mounts, IsEmpty());
  EXPECT_EQ(engine_->GetSession(second)->owner, "");
  const SessionId owned = engine_->OpenSession({}, {.peer = "10.0.0.1", .owner = "ci"}).value();
  EXPECT_EQ(engine_->GetSession(owned)->owner, "ci");
  EXPECT_THAT(engine_->CloseSession(owned), IsOk());
  EXPECT_EQ(engine_->stats().sessions, 2);
  EXPECT_THAT(engine_->CloseSession(first), IsOk());
  EXPECT_THAT(engine_->GetSession(first), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(engine_->CloseSession(first), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_EQ(engine_->stats().sessions, 1);
  const auto twice = StatusIs(StatusCode::kInvalidArgument, "mounted twice");
  EXPECT_THAT(engine_->OpenSession({.mounts = {"a", "b", "a"}}), twice);
  EXPECT_THAT(Generate(*engine_, Ask(1, {"a", "a"})).status, twice);
}

TEST_P(EngineContractTest, AWildcardMountsAllDocumentsThatBeginSo) {
  for (const char* id : {"notes/may", "notes", "notes/", "note", "notes/april", "other"}) {
    ASSERT_THAT(Ingest(*engine_, id, "text"), IsOk());
  }
  const auto mounts = [&](std::vector<std::string> names) {
    const SessionId session = engine_->OpenSession({.mounts = std::move(names)}).value();
    return engine_->GetSession(session)->mounts;
  };
  EXPECT_THAT(mounts({"notes/*"}), ElementsAre("notes/", "notes/april", "notes/may"));
  EXPECT_THAT(mounts({"other", "notes/may", "notes/*"}),
              ElementsAre("other", "notes/may", "notes/", "notes/april"));
  EXPECT_THAT(mounts({"notes/m*", "other", "notes/may"}), ElementsAre("notes/may", "other"));
  EXPECT_THAT(mounts({"*"}),
              ElementsAre("note", "notes", "notes/", "notes/april", "notes/may", "other"));
  EXPECT_THAT(Generate(*engine_, Ask(1, {"notes/*"})).status, IsOk());
  EXPECT_THAT(
      engine_->OpenSession({.mounts = {"other", "notes/july*"}}),
      StatusIs(StatusCode::kNotFound, "\"notes/july*\": no document has an id that begins"));
  EXPECT_THAT(Ingest(*engine_, "all*", "text"), StatusIs(StatusCode::kInvalidArgument, "asterisk"));
}

TEST_P(EngineContractTest, ASessionServesOneRequestAtATimeAndClosingCancelsIt) {
  const SessionId session = engine_->OpenSession({}).value();
  GenerateRequest request = Ask(3);
  request.session = session;
  const Running running = Start(request);
  EXPECT_THAT(Generate(*engine_, request).status, StatusIs(StatusCode::kAborted, ""));
  EXPECT_THAT(Generate(*engine_, Ask(3)).status, IsOk()) << "others go on";
  EXPECT_THAT(engine_->CloseSession(session), IsOk());
  EXPECT_THAT(engine_->GetSession(session), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(running.events->Wait(), StatusIs(StatusCode::kCancelled, ""));
  EXPECT_THAT(Generate(*engine_, request).status, StatusIs(StatusCode::kNotFound, ""));
}

TEST_P(EngineContractTest, ASessionMayBeUsedAgainFromTheEndOfARequest) {
  GenerateRequest request = Ask(3);
  request.session = engine_->OpenSession({}).value();
  const auto third = std::make_shared<Recorder>();
  const auto second = std::make_shared<Recorder>();
  second->on_event = [&](char event) {
    if (event == 'e') engine_->Generate(request, third);
  };
  const auto first = std::make_shared<Recorder>();
  std::shared_ptr<RequestHandle> handle;
  first->on_event = [&](char event) {
    if (event != 'd') return;
    GenerateRequest late = request;
    late.deadline = SteadyNow() - absl::Seconds(1);
    engine_->Generate(late, second);
  };
  engine_->Generate(request, first);
  EXPECT_THAT(first->Wait(), IsOk());
  EXPECT_THAT(second->Wait(), StatusIs(StatusCode::kDeadlineExceeded, ""));
  EXPECT_THAT(third->Wait(), IsOk());
}

TEST_P(EngineContractTest, OnePeerLeavesTheLastQuarterOfSessionsToOthers) {
  Make(/*max_sessions=*/4, /*max_ingests=*/1);
  SessionId last{};
  for (int i = 0; i < 3; ++i) last = engine_->OpenSession({}, {.peer = "10.0.0.1"}).value();
  EXPECT_THAT(engine_->OpenSession({}, {.peer = "10.0.0.1"}),
              StatusIs(StatusCode::kResourceExhausted, "3 sessions of 10.0.0.1"));
  EXPECT_THAT(engine_->OpenSession({}, {.peer = "10.0.0.2"}), IsOk());
  EXPECT_THAT(engine_->OpenSession({}), StatusIs(StatusCode::kResourceExhausted, "4 sessions"));
  EXPECT_THAT(engine_->CloseSession(last), IsOk());
  EXPECT_THAT(engine_->OpenSession({}), IsOk());
}

// --- requests ---

TEST_P(EngineContractTest, AGenerationEmitsItsTokensAndEndsOnce) {
  for (const int64_t most : {0, 1, 20}) {
    const auto events = Run(Ask(most));
    EXPECT_THAT(events->status, IsOk());
    EXPECT_EQ(events->count, most);
    EXPECT_THAT(events->log, MatchesRegex("t*d"));
    EXPECT_EQ(events->reason, FinishReason::kMaxTokens);
    EXPECT_EQ(events->usage.generated_tokens, most);
    EXPECT_GT(events->usage.prompt_tokens, 0);
  }
}

TEST_P(EngineContractTest, LogprobsComeBeforeTheirTokensWhereTheyAreWanted) {
  for (const int64_t top : {0, 3, 20}) {
    GenerateRequest request = Ask(10);
    request.logprobs = top;
    const auto events = Run(request);
    ASSERT_THAT(events->status, IsOk());
    EXPECT_THAT(events->log, MatchesRegex("(lt)*d"));
    ASSERT_EQ(events->logprobs.size(), 10u);
    for (const ChosenLogprob& token : events->logprobs) {
      EXPECT_GE(token.chosen.token, 0);
      EXPECT_LE(token.chosen.logprob, 0);
      ASSERT_EQ(std::ssize(token.top), top);
      for (size_t i = 1; i < token.top.size(); ++i)
        EXPECT_LE(token.top[i].logprob, token.top[i - 1].logprob);
      if (top > 0) {
        EXPECT_EQ(token.top[0].token, token.chosen.token);  // greedy
      }
    }
  }
  GenerateRequest request = Ask(1);
  request.logprobs = 21;
  const auto refused = Run(request);
  EXPECT_THAT(refused->status,
              StatusIs(StatusCode::kInvalidArgument, "logprobs: 21, limit 0 to 20"));
}

TEST_P(EngineContractTest, HitsComeWhereTheyAreWantedInOrder) {
  ASSERT_THAT(Ingest(*engine_, "a", SampleText(2000, 1)), IsOk());
  ASSERT_THAT(Ingest(*engine_, "b", SampleText(900, 2)), IsOk());
  const auto silent = Run(Ask(80, {"a", "b"}));
  ASSERT_THAT(silent->status, IsOk());
  EXPECT_THAT(silent->log, MatchesRegex("t*d"));
  GenerateRequest request = Ask(80, {"a", "b"});
  request.with_retrievals = true;
  const auto events = Run(request);
  ASSERT_THAT(events->status, IsOk());
  EXPECT_THAT(events->log, MatchesRegex("r[rt]*d"));
  std::pair<int64_t, int> before(-1, 0);
  for (const Retrieval& retrieval : events->retrievals) {
    const std::pair<int64_t, int> place(retrieval.position, retrieval.group);
    EXPECT_LT(before, place);
    before = place;
    EXPECT_LE(std::ssize(retrieval.hits), retrieval.candidates);
    float score = std::numeric_limits<float>::infinity();
    for (const Hit& hit : retrieval.hits) {
      EXPECT_LE(hit.score, score);
      score = hit.score;
      if (hit.document.empty()) continue;  // the session's own
      const auto info = engine_->GetDocument(hit.document);
      ASSERT_THAT(info, IsOk());
      EXPECT_EQ(hit.owner, info->owner);
      EXPECT_LT(hit.chunk, info->chunks);
      EXPECT_THAT(engine_->ReadText(hit.document, hit.text_begin, hit.text_end), IsOk());
    }
  }
}

TEST_P(EngineContractTest, RetrieveReturnsAsManyHitsAsAsked) {
  ASSERT_THAT(Ingest(*engine_, "a", SampleText(2000, 1)), IsOk());
  RetrieveRequest request{{.mounts = {"a"}}, {"where is the whale?", {}}};
  const int64_t by_default = std::ssize(Retrieve(*engine_, request)->front().hits);
  EXPECT_GT(by_default, 0);
  for (const int64_t k : {0, 1, 3}) {
    request.k = k;
    const auto retrievals = Retrieve(*engine_, request);
    ASSERT_THAT(retrievals, IsOk());
    ASSERT_FALSE(retrievals->empty());
    for (const Retrieval& retrieval : *retrievals) {
      EXPECT_GE(retrieval.candidates, 3);
      EXPECT_EQ(std::ssize(retrieval.hits), k == 0 ? by_default : k);
    }
  }
}

TEST_P(EngineContractTest, ScoresAreAsManyAsTokens) {
  const auto result = Score(*engine_, {{}, {}, {"ab", {}}, {}});
  ASSERT_THAT(result, IsOk());
  EXPECT_GT(result->tokens.size(), 0u);
  EXPECT_EQ(result->logprobs.size(), result->tokens.size());
  EXPECT_EQ(result->argmax.size(), result->tokens.size());
  ASSERT_EQ(result->argmax_logprobs.size(), result->tokens.size());
  for (size_t i = 0; i < result->tokens.size(); ++i)
    EXPECT_GE(result->argmax_logprobs[i], result->logprobs[i]);
  EXPECT_EQ(result->text_bytes, 2);
  EXPECT_TRUE(result->top.empty());
}

TEST_P(EngineContractTest, ScoresHaveTheLikeliestTokensWhereTheyAreWanted) {
  ScoreRequest request{{}, {}, {"ab", {}}, {}};
  request.top_logprobs = 3;
  const auto result = Score(*engine_, request);
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->top.size(), 3 * result->tokens.size());
  for (size_t i = 0; i < result->tokens.size(); ++i) {
    EXPECT_EQ(result->top[3 * i].token, result->argmax[i]);
    EXPECT_EQ(result->top[3 * i].logprob, result->argmax_logprobs[i]);
  }
  request.top_logprobs = 21;
  EXPECT_THAT(Score(*engine_, request),
              StatusIs(StatusCode::kInvalidArgument, "top_logprobs: 21, limit 0 to 20"));
}

TEST_P(EngineContractTest, EmbeddingsSayHowManyTokensTheyStandFor) {
  const auto result = Embed(*engine_, {{}, {"ab", {}}});
  if (GetParam().name == "RealWithText" || GetParam().name == "RealWithLlamaOnADevice") {
    // No keys but words.
    EXPECT_THAT(result, StatusIs(StatusCode::kFailedPrecondition, "no landmarks"));
    EXPECT_THAT(result.status().message(), HasSubstr("; '/v1/retrieve' searches documents"));
    return;
  }
  if (std::string(GetParam().name) == "RealWithAdapter") {
    EXPECT_THAT(result, StatusIs(StatusCode::kFailedPrecondition,
                                 "keys that no vector holds; '/v1/retrieve' searches documents"));
    return;
  }
  ASSERT_THAT(result, IsOk());
  EXPECT_GT(result->values.size(), 0u);
  EXPECT_GT(result->tokens, 0);
  EXPECT_THAT(Embed(*engine_, {}), StatusIs(StatusCode::kInvalidArgument, "input: empty"));
  EXPECT_THAT(Embed(*engine_, {{.mounts = {"moby"}}, {"a", {}}}),
              StatusIs(StatusCode::kNotFound, "moby"));
}

}  // namespace
}  // namespace recollect::engine
