// How requests end, over the engine and over its fake: cancelled, at their deadline, by shutdown.
#include <future>
#include <thread>

#include "tests/engine/engine_contract.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

TEST_P(EngineContractTest, CancelEndsARequestBeforeDuringAndNotAfter) {
  const auto before = std::make_shared<Recorder>();
  engine_->Generate(Ask(kEndless), before)->Cancel();
  EXPECT_THAT(before->Wait(), StatusIs(StatusCode::kCancelled, ""));

  const Running during = Start(Ask(kEndless));
  during.handle->Cancel();
  during.handle->Cancel();
  EXPECT_THAT(during.events->Wait(), StatusIs(StatusCode::kCancelled, ""));
  EXPECT_THAT(during.events->log, MatchesRegex("t+e"));
  during.handle->Cancel();

  const auto after = std::make_shared<Recorder>();
  const auto handle = engine_->Generate(Ask(3), after);
  EXPECT_THAT(after->Wait(), IsOk());
  handle->Cancel();
  for (const auto& done : {engine_->Score({{}, {}, {"a", {}}, {}}, [](const auto&) {}),
                           engine_->Retrieve({{}, {"a", {}}}, [](const auto&) {})}) {
    EXPECT_THAT(Generate(*engine_, Ask(1)).status, IsOk());
    done->Cancel();
  }
}

TEST_P(EngineContractTest, FromACallbackCancelComesBeforeTheNextToken) {
  const auto events = std::make_shared<Recorder>();
  std::promise<std::shared_ptr<RequestHandle>> handle;
  const auto known = handle.get_future().share();
  events->on_event = [&](char) {
    if (events->count == 10) known.get()->Cancel();
  };
  handle.set_value(engine_->Generate(Ask(kEndless), events));
  EXPECT_THAT(events->Wait(), StatusIs(StatusCode::kCancelled, ""));
  EXPECT_EQ(events->count, 10);
}

TEST_P(EngineContractTest, DeadlinesEndRequests) {
  const auto late = StatusIs(StatusCode::kDeadlineExceeded, "");
  const absl::Time past = SteadyNow() - absl::Seconds(1);
  GenerateRequest request = Ask(kEndless);
  request.deadline = past;
  const Generated generated = Generate(*engine_, request);
  EXPECT_THAT(generated.status, late);
  EXPECT_THAT(generated.tokens, IsEmpty());
  EXPECT_THAT(Score(*engine_, {{}, {}, {"a", {}}, {}, 0, past}), late);
  EXPECT_THAT(Retrieve(*engine_, {{}, {"a", {}}, 0, past}), late);
  request.deadline = SteadyNow() + absl::Milliseconds(50);
  EXPECT_THAT(Generate(*engine_, request).status, late);
  EXPECT_GE(SteadyNow(), request.deadline);
}

TEST_P(EngineContractTest, AnswersComeFromOtherThreads) {
  std::promise<void> all;
  std::atomic<int> left = 7;
  const auto answered = [&, caller = std::this_thread::get_id()](const auto&) {
    EXPECT_NE(std::this_thread::get_id(), caller);
    if (--left == 0) all.set_value();
  };
  const auto refused = std::make_shared<Recorder>(), ended = std::make_shared<Recorder>();
  refused->on_event = ended->on_event = [&](char event) {
    if (event == 'd' || event == 'e') answered(event);
  };
  engine_->Generate(Ask(1, {"missing"}), refused);
  engine_->Generate(Ask(1), ended);
  engine_->Score({{}, {.mounts = {"missing"}}, {"a", {}}, {}}, answered);
  engine_->Retrieve({{.mounts = {"missing"}}, {"a", {}}}, answered);
  const auto stream = Begin("d");
  stream->Append(4, "a gap", answered);
  stream->Append(0, "text", answered);
  stream->Finish(answered);
  all.get_future().wait();
  EXPECT_THAT(refused->log, "e");
  EXPECT_THAT(ended->Wait(), IsOk());
}

TEST_P(EngineContractTest, CallbacksMayMakeTheNextRequest) {
  std::promise<absl::Status> last;
  const auto events = std::make_shared<Recorder>();
  events->on_event = [&](char event) {
    if (event == 'd')
      engine_->Score({{}, {}, {"a", {}}, {}}, [&](auto r) { last.set_value(r.status()); });
  };
  engine_->Score({{}, {}, {"a", {}}, {}}, [&](const auto& scored) {
    EXPECT_THAT(scored, IsOk());
    engine_->Retrieve({{}, {"a", {}}}, [&](const auto& retrieved) {
      EXPECT_THAT(retrieved, IsOk());
      engine_->Generate(Ask(2), events);
    });
  });
  EXPECT_THAT(last.get_future().get(), IsOk());
}

// --- the end ---

TEST_P(EngineContractTest, ShutdownLetsRequestsEndUntilItsDeadline) {
  const auto finishes = std::make_shared<Recorder>();
  engine_->Generate(Ask(100), finishes);
  engine_->Shutdown(absl::InfiniteFuture());
  EXPECT_THAT(finishes->Wait(), IsOk());
  EXPECT_EQ(finishes->count, 100);
  engine_->Shutdown(absl::InfinitePast());  // harmless

  Make(1, 1);
  const Running running = Start(Ask(kEndless));
  const absl::Time deadline = SteadyNow() + absl::Milliseconds(20);
  engine_->Shutdown(deadline);
  EXPECT_GE(SteadyNow(), deadline);
  EXPECT_THAT(running.events->Wait(), StatusIs(StatusCode::kUnavailable, ""));
}

TEST_P(EngineContractTest, ShutdownRefusesNewWork) {
  const auto refused = StatusIs(StatusCode::kUnavailable, "shutting down");
  ASSERT_THAT(Ingest(*engine_, "a", "text"), IsOk());
  const auto stream = Begin("d");
  engine_->Shutdown(absl::InfinitePast());
  EXPECT_THAT(Generate(*engine_, Ask(1)).status, refused);
  EXPECT_THAT(Score(*engine_, {{}, {}, {"a", {}}, {}}), refused);
  EXPECT_THAT(Retrieve(*engine_, {{}, {"a", {}}}), refused);
  EXPECT_THAT(engine_->OpenSession({}), refused);
  EXPECT_THAT(engine_->BeginIngest("e", false, {}), refused);
  EXPECT_THAT(engine_->DeleteDocument("a"), refused);
  EXPECT_THAT(Append(*stream, 0, "text"), refused);
  EXPECT_THAT(Finish(*stream), refused);
}

}  // namespace
}  // namespace recollect::engine
