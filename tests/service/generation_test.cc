// The RPC group Generation over the fake engine.
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "client/state.h"
#include "grpcpp/create_channel.h"
#include "recollect/v1/generation.grpc.pb.h"
#include "tests/service/service_testing.h"

namespace recollect {
namespace {

using ::testing::ElementsAre;

TEST_F(ServiceTest, GenerateStreamsTextRetrievalsAndUsage) {
  engine_.AddDocument("d", "0123456789abcdef");
  v1::GenerateRequest request;
  request.mutable_session()->add_mounts("d");
  request.mutable_prompt()->set_text("say");
  request.set_with_retrievals(true);
  std::string streamed;
  client::GenerateCallbacks callbacks;
  callbacks.on_tokens = [&](const auto&, const std::string& text) {
    streamed += text;
    return true;
  };
  const auto result = client_->Generate(request, callbacks);
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
  EXPECT_EQ(engine_.last_generate().max_tokens, 128);  // as constructed
}

TEST_F(ServiceTest, AClientThatCancelsCancelsTheEngine) {
  engine_.SetGeneration({.then_wait = true});
  client::GenerateCallbacks callbacks;
  callbacks.on_tokens = [](const auto&, const auto&) { return false; };
  EXPECT_EQ(client_->Generate({}, callbacks).status().code(), absl::StatusCode::kCancelled);
  while (engine_.cancelled() == 0) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(ServiceTest, DeadlinesReachTheEngine) {
  engine_.SetGeneration({.then_wait = true});
  const auto client =
      client::Client::Connect(server_->address(), {.timeout = absl::Milliseconds(200)}).value();
  const absl::Time before = SteadyNow();
  EXPECT_EQ(client->Generate({}).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(SteadyNow() - before, absl::Seconds(10));
  EXPECT_LT(engine_.last_generate().deadline, before + absl::Seconds(10));
}

TEST_F(ServiceTest, NoDeadlineIsNoDeadline) {
  ASSERT_TRUE(client_->Generate({}).ok());
  EXPECT_EQ(engine_.last_generate().deadline, absl::InfiniteFuture());
}

TEST_F(ServiceTest, TextBeforeAnErrorArrives) {
  engine_.SetGeneration({.then_error = absl::DataLossError("chunk 3")});
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
  engine_.SetGeneration({.repeat = 20000});
  const auto result = client_->Generate({});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->tokens.size(), 40000u);
  for (int i = 0; i < 40000; ++i) ASSERT_EQ(result->tokens[i], i);
  EXPECT_EQ(result->text.size(), 100000u);
}

TEST_F(ServiceTest, AReaderThatStopsReadingEndsTheCall) {
  // Far more than gRPC's own buffers and ours.
  engine_.SetGeneration(
      {.pieces = {std::string(64 << 10, 'x')}, .repeat = 1000, .then_wait = true});
  auto stub = v1::Generation::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  auto stream = stub->Generate(&context, {});
  while (engine_.cancelled() == 0) absl::SleepFor(absl::Milliseconds(1));
  // Before anything is read: else a server would keep what nobody ever reads.
  int64_t running = 1;
  for (int i = 0; i < 2000 && running > 0; ++i) {
    const v1::Stats stats = client_->GetStats().value();
    for (const v1::RpcStats& rpc : stats.rpcs()) {
      if (rpc.method() == "Generation/Generate") running = rpc.running();
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(running, 0);
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
  EXPECT_EQ(engine_.last_generate().session, engine::SessionId{session.id()});
  EXPECT_TRUE(client_->CloseSession(session.id()).ok());
  EXPECT_EQ(client_->GetSession(session.id()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->CloseSession(session.id()).code(), absl::StatusCode::kNotFound);
  options.set_mounts(0, "missing");
  EXPECT_THAT(client_->OpenSession(options).status(),
              Fails(absl::StatusCode::kNotFound, "missing"));
}

TEST_F(ServiceTest, ASessionOpenedForACallerWhoHasGoneIsClosed) {
  engine_.open_delay = absl::Milliseconds(300);
  auto stub = v1::Generation::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Milliseconds(100)));
  v1::Session session;
  EXPECT_THAT(client::FromGrpc(stub->OpenSession(&context, {}, &session)),
              Fails(absl::StatusCode::kDeadlineExceeded, ""));
  // A later one has a number that the first took.
  engine_.open_delay = absl::ZeroDuration();
  const absl::Time end = absl::Now() + absl::Seconds(20);
  uint64_t id = 0;
  while (id < 2 && absl::Now() < end) {
    id = client_->OpenSession({}).value().id();
    EXPECT_TRUE(client_->CloseSession(id).ok());
    absl::SleepFor(absl::Milliseconds(10));
  }
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(engine_.stats().sessions, 0);
}

TEST_F(ServiceTest, ScoreReturnsThreeNumbersAToken) {
  v1::ScoreRequest request;
  request.mutable_prompt()->set_text("ab");
  request.add_flush_after(1);
  request.add_flush_after(2);
  const auto result = client_->Score(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->tokens(), ElementsAre(7, 8));
  EXPECT_THAT(result->logprobs(), ElementsAre(-0.5f, -1.5f));
  EXPECT_THAT(result->argmax(), ElementsAre(7, 9));
  EXPECT_EQ(result->text_bytes(), 2);
  EXPECT_THAT(engine_.last_score().flush_after, ElementsAre(1, 2));
  request.mutable_session()->add_mounts("missing");
  EXPECT_THAT(client_->Score(request).status(), Fails(absl::StatusCode::kNotFound, "missing"));
}

}  // namespace
}  // namespace recollect
