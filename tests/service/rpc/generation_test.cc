// The RPC group Generation over the fake engine.
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "client/state.h"
#include "grpcpp/create_channel.h"
#include "recollect/v1/generation.grpc.pb.h"
#include "tests/service/service_testing.h"

namespace recollect {
namespace {

using ::testing::ElementsAre;

client::GenerateCallbacks AppendTo(std::string& streamed) {
  client::GenerateCallbacks callbacks;
  callbacks.on_tokens = [&streamed](const auto&, const std::string& text) {
    streamed += text;
    return true;
  };
  return callbacks;
}

TEST_F(ServiceTest, GenerateStreamsTextRetrievalsAndUsage) {
  engine_.AddDocument("d", "0123456789abcdef");
  v1::GenerateRequest request;
  request.mutable_session()->add_mounts("d");
  request.mutable_prompt()->set_text("say");
  request.set_with_retrievals(true);
  std::string streamed;
  const auto result = client_->Generate(request, AppendTo(streamed));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->text, "Hello");
  EXPECT_EQ(streamed, "Hello");
  EXPECT_THAT(result->tokens, ElementsAre(0, 1));
  EXPECT_EQ(result->done.reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(result->done.usage().prompt_tokens(), 3);
  EXPECT_EQ(result->done.usage().generated_tokens(), 2);
  EXPECT_EQ(result->done.usage().time_to_first_token_ms(), 2);
  ASSERT_EQ(result->retrievals.size(), 1);
  EXPECT_EQ(result->retrievals[0].position(), 64);
  EXPECT_EQ(result->retrievals[0].hits(1).chunk(), 1);
}

// All of it was streamed; the result is what came before.
TEST_F(ServiceTest, AnAnswerThatOnlyRepeatsItselfHasItsReason) {
  engine_.Set({.generation = {.pieces = {"No. ", "No. ", "No. "},
                              .reason = engine::FinishReason::kRepetition,
                              .repeats_from = 4}});
  v1::GenerateRequest request;
  std::string streamed;
  const auto result = client_->Generate(request, AppendTo(streamed));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(streamed, "No. No. No. ");
  EXPECT_EQ(result->text, "No. ");
  EXPECT_EQ(result->tokens.size(), 3u);
  EXPECT_EQ(result->done.reason(), v1::FINISH_REASON_REPETITION);
  EXPECT_EQ(result->done.repeats_from(), 4);
  // The caller has a part already.
  request.mutable_generated()->set_text("N");
  EXPECT_EQ(client_->Generate(request)->text, "No.");
}

TEST_F(ServiceTest, GenerateRefusesMissingMountsAndMountsNamedTwice) {
  v1::GenerateRequest request;
  request.mutable_session()->add_mounts("missing");
  EXPECT_THAT(client_->Generate(request).status(), Fails(absl::StatusCode::kNotFound, "missing"));
  engine_.AddDocument("d", "text");
  request.mutable_session()->set_mounts(0, "d");
  request.mutable_session()->add_mounts("d");
  EXPECT_THAT(client_->Generate(request).status(),
              Fails(absl::StatusCode::kInvalidArgument, "twice"));
}

TEST_F(ServiceTest, AbsurdRequestsAreRefused) {
  v1::GenerateRequest request;
  request.set_max_tokens(int64_t{1} << 60);
  EXPECT_THAT(client_->Generate(request).status(),
              Fails(absl::StatusCode::kInvalidArgument,
                    "max_tokens: 1152921504606846976, limit 0 to 65536"));
  EXPECT_EQ(engine_.seen().generate.max_tokens, 128);  // as constructed
}

TEST_F(ServiceTest, LogprobsComeBeforeTheirTokens) {
  engine_.Set({.generation = {.reason = engine::FinishReason::kEos}});
  auto stub = v1::Generation::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::GenerateRequest request;
  request.set_logprobs(2);
  auto stream = stub->Generate(&context, request);
  v1::GenerateResponse response;
  std::vector<int32_t> scored;
  size_t emitted = 0;
  while (stream->Read(&response)) {
    if (response.has_logprobs()) {
      scored.push_back(response.logprobs().id());
      EXPECT_EQ(response.logprobs().logprob(), -0.25f);
      EXPECT_THAT(response.logprobs().top_ids(), ElementsAre(scored.back(), scored.back() + 1));
      EXPECT_THAT(response.logprobs().top_logprobs(), ElementsAre(-0.25f, -0.5f));
    }
    for (const int32_t id : response.tokens().ids()) {
      ASSERT_LT(emitted, scored.size());
      EXPECT_EQ(id, scored[emitted++]);
    }
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(emitted, 2u);
  EXPECT_THAT(scored, ElementsAre(0, 1, FakeEngine::kEndToken));
  EXPECT_EQ(client_->Generate(request).value().logprobs.size(), 3);
  EXPECT_EQ(client_->Generate({}).value().logprobs.size(), 0);
  request.set_logprobs(21);
  EXPECT_THAT(client_->Generate(request).status(),
              Fails(absl::StatusCode::kInvalidArgument, "logprobs: 21, limit 0 to 20"));
  v1::ScoreRequest score;
  score.mutable_prompt()->set_text("ab");
  score.set_top_logprobs(2);
  const auto result = client_->Score(score).value();
  EXPECT_THAT(result.top_ids(), ElementsAre(7, -1, 9, -1));
  EXPECT_THAT(result.top_logprobs(), ElementsAre(-0.5f, 0, -0.25f, 0));
}

TEST_F(ServiceTest, AClientThatCancelsCancelsTheEngine) {
  engine_.Set({.generation = {.then_wait = true}});
  client::GenerateCallbacks callbacks;
  callbacks.on_tokens = [](const auto&, const auto&) { return false; };
  EXPECT_EQ(client_->Generate({}, callbacks).status().code(), absl::StatusCode::kCancelled);
  engine_.Await([](const auto& seen) { return seen.cancelled == 1; });
}

TEST_F(ServiceTest, DeadlinesReachTheEngine) {
  engine_.Set({.generation = {.then_wait = true}});
  const auto client =
      client::Client::Connect(server_->address(), {.timeout = absl::Milliseconds(200)}).value();
  const absl::Time before = SteadyNow();
  EXPECT_EQ(client->Generate({}).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(SteadyNow() - before, absl::Seconds(10));
  EXPECT_LT(engine_.seen().generate.deadline, before + absl::Seconds(10));
}

TEST_F(ServiceTest, NoDeadlineIsNoDeadline) {
  ASSERT_TRUE(client_->Generate({}).ok());
  EXPECT_EQ(engine_.seen().generate.deadline, absl::InfiniteFuture());
}

TEST_F(ServiceTest, TextBeforeAnErrorArrives) {
  engine_.Set({.generation = {.then_error = absl::DataLossError("chunk 3")}});
  std::string streamed;
  client::GenerateCallbacks callbacks;
  callbacks.on_tokens = [&](const auto&, const std::string& text) {
    streamed += text;
    return true;
  };
  EXPECT_THAT(client_->Generate({}, callbacks).status(),
              Fails(absl::StatusCode::kDataLoss, "chunk 3"));
  EXPECT_EQ(streamed, "Hello");
}

TEST_F(ServiceTest, EveryTokenOfALongAnswerArrivesInOrder) {
  engine_.Set({.generation = {.repeat = 20000}});
  v1::GenerateRequest request;
  request.set_max_tokens(40000);
  const auto result = client_->Generate(request);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->tokens.size(), 40000u);
  for (int i = 0; i < 40000; ++i) ASSERT_EQ(result->tokens[i], i);
  EXPECT_EQ(result->text.size(), 100000u);
}

TEST_F(ServiceTest, AReaderThatStopsReadingEndsTheCall) {
  // Far more than gRPC's own buffers and ours.
  engine_.Set(
      {.generation = {.pieces = {std::string(64 << 10, 'x')}, .repeat = 1000, .then_wait = true}});
  auto stub = v1::Generation::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  auto stream = stub->Generate(&context, {});
  engine_.Await([](const auto& seen) { return seen.cancelled == 1; });
  // Before anything is read: else a server would keep what nobody ever reads.
  AwaitNoneRunning("Generation/Generate");
  v1::GenerateResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(client::FromGrpc(stream->Finish()),
              Fails(absl::StatusCode::kResourceExhausted, "reads too slowly"));
}

TEST_F(ServiceTest, SessionsOpenAreFoundAndClose) {
  engine_.AddDocument("d", "text");
  v1::SessionOptions options;
  options.add_mounts("d");
  const v1::Session session = client_->OpenSession(options).value();
  EXPECT_NE(session.id(), 0u);
  EXPECT_THAT(session.mounts(), ElementsAre("d"));
  EXPECT_EQ(client_->GetSession(session.id()).value().positions(), 65);
  v1::GenerateRequest request;
  request.set_session_id(session.id());
  ASSERT_TRUE(client_->Generate(request).ok());
  EXPECT_EQ(engine_.seen().generate.session, engine::SessionId{session.id()});
  EXPECT_TRUE(client_->CloseSession(session.id()).ok());
  EXPECT_EQ(client_->GetSession(session.id()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->CloseSession(session.id()).code(), absl::StatusCode::kNotFound);
  options.set_mounts(0, "missing");
  EXPECT_THAT(client_->OpenSession(options).status(),
              Fails(absl::StatusCode::kNotFound, "missing"));
}

TEST_F(ServiceTest, ASessionIsSavedAsADocument) {
  v1::GenerateRequest request;
  request.set_session_id(client_->OpenSession({}).value().id());
  request.mutable_prompt()->set_text("Say ");
  ASSERT_TRUE(client_->Generate(request).ok());
  v1::SaveSessionRequest save;
  save.set_session_id(request.session_id());
  save.set_document_id("talk");
  const auto document = client_->SaveSession(save);
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->id(), "talk");
  EXPECT_EQ(client_->ReadText("talk", 0, document->bytes()).value(), "Say Hello");
  engine_.AddDocument("book", "another text");
  save.set_document_id("book");
  EXPECT_THAT(client_->SaveSession(save).status(),
              Fails(absl::StatusCode::kAlreadyExists, "document \"book\" exists"));
  save.set_replace(true);
  EXPECT_TRUE(client_->SaveSession(save).ok());
  save.set_session_id(12345);
  EXPECT_EQ(client_->SaveSession(save).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ServiceTest, AnAnswerSaysWhatItWasSavedAs) {
  v1::GenerateRequest request;
  v1::ChatMessage& question = *request.mutable_prompt()->add_messages();
  question.set_role(v1::CHAT_ROLE_USER);
  question.set_content("Who?");
  EXPECT_FALSE(client_->Generate(request).value().done.has_saved());
  request.mutable_save_as()->set_document_id("talk");
  const v1::Saved saved = client_->Generate(request).value().done.saved();
  EXPECT_EQ(saved.document().id(), "talk");
  EXPECT_FALSE(saved.has_error());
  EXPECT_EQ(client_->ReadText("talk", 0, saved.document().bytes()).value(),
            "user: Who?\nassistant: Hello\n");
  EXPECT_EQ(engine_.seen().generate.save_as->peer, "127.0.0.1");
  request.mutable_save_as()->set_document_id("a,b");
  EXPECT_THAT(client_->Generate(request).status(),
              Fails(absl::StatusCode::kInvalidArgument, "save_as: id: "));
}

TEST_F(ServiceTest, ASessionOpenedForACallerWhoHasGoneIsClosed) {
  std::promise<void> begun, gone;
  engine_.on_open = [&] {
    begun.set_value();
    gone.get_future().wait();
  };
  auto stub = v1::Generation::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context, later;
  std::thread caller([&] {
    begun.get_future().wait();
    context.TryCancel();
  });
  v1::Session session;
  EXPECT_THAT(client::FromGrpc(stub->OpenSession(&context, {}, &session)),
              Fails(absl::StatusCode::kCancelled, ""));
  caller.join();
  // A server reads a connection in order: with this answer it has read the cancellation, too.
  EXPECT_THAT(client::FromGrpc(stub->GetSession(&later, {}, &session)),
              Fails(absl::StatusCode::kNotFound, ""));
  gone.set_value();
  engine_.Await([](const auto& seen) { return seen.opened == 1 && seen.sessions == 0; });
}

TEST_F(ServiceTest, ScoreReturnsFourNumbersAToken) {
  v1::ScoreRequest request;
  request.mutable_prompt()->set_text("ab");
  request.add_flush_after(1);
  request.add_flush_after(2);
  const auto result = client_->Score(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->tokens(), ElementsAre(7, 8));
  EXPECT_THAT(result->logprobs(), ElementsAre(-0.5f, -1.5f));
  EXPECT_THAT(result->argmax(), ElementsAre(7, 9));
  EXPECT_THAT(result->argmax_logprobs(), ElementsAre(-0.5f, -0.25f));
  EXPECT_EQ(result->text_bytes(), 2);
  EXPECT_THAT(engine_.seen().score.flush_after, ElementsAre(1, 2));
  request.mutable_session()->add_mounts("missing");
  EXPECT_THAT(client_->Score(request).status(), Fails(absl::StatusCode::kNotFound, "missing"));
  request.set_session_id(3);
  EXPECT_THAT(client_->Score(request).status(),
              Fails(absl::StatusCode::kInvalidArgument, "session: set together with session_id"));
  request.clear_session();
  ASSERT_TRUE(client_->Score(request).ok());
  EXPECT_EQ(engine_.seen().score.session, engine::SessionId{3});
}

}  // namespace
}  // namespace recollect
