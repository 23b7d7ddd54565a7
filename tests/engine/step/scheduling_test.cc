// What the scheduler promises: streams go on beside ingests and beside sessions that wait for the
// disk; queues are bounded; requests end when they are told to. Counted in steps, not in time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"

namespace recollect::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Holds up reads of chunks while it is closed.
class GatedStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::vector<absl::StatusOr<store::ChunkRecord>> ReadChunks(
      std::span<const ChunkRef> refs) override {
    std::unique_lock<std::mutex> lock(mutex_);
    waiting = true;
    waiting.notify_one();
    wakes_.wait(lock, [this] { return open_; });
    return ForwardingStore::ReadChunks(refs);
  }
  void SetOpen(bool open) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open_ = open;
    }
    wakes_.notify_all();
  }
  std::atomic<bool> waiting{false};

 private:
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool open_ = true;
};

GenerateRequest Ask(int64_t max_tokens, std::vector<std::string> mounts = {}) {
  GenerateRequest request;
  request.prompt.text = "call me";
  request.max_tokens = max_tokens;
  request.session_options.mounts = std::move(mounts);
  request.ignore_eos = true;
  return request;
}

// Blocks the scheduler's thread in a callback until Open.
class Latch {
 public:
  void Wait() { open_.get_future().wait(); }
  void Open() { open_.set_value(); }

 private:
  std::promise<void> open_;
};

TEST(SchedulingTest, AStreamWaitsForAtMostOneIngestSlice) {
  TestOptions options = SmallOptions();
  options.ingest_slice_tokens = 4 * 63;
  options.commit_tokens = 1 << 20;
  auto engine = MakeEngine(options);
  const std::string turns = TurnsBesideAStream(*engine, SampleTokens(100 * 4 * 63, 1));
  EXPECT_THAT(turns, Not(HasSubstr("ii")));
  EXPECT_EQ(std::ranges::count(turns, 'i'), 100);
  // A landmark is a step without a token.
  EXPECT_GT(std::ranges::count(turns, 't'), 50);
}

TEST(SchedulingTest, StepsComeWithinASliceOfAnIngest) {
  TestOptions options = SmallOptions();
  options.ingest_slice_tokens = 100 * 63;
  options.commit_tokens = 1 << 20;
  auto engine = MakeEngine(options);
  const std::string turns = TurnsBesideAStream(*engine, SampleTokens(3 * 100 * 63, 1));
  EXPECT_EQ(std::ranges::count(turns, 'i'), 3);
  // How often a slice rests depends on how long the machine takes for steps.
  EXPECT_THAT(turns, HasSubstr("pst")) << turns;
}

// An ingest whose slices take 20 ms each.
class SlowIngest final : public SliceSource {
 public:
  explicit SlowIngest(int slices) : left_(slices) {}
  bool HasSlice() override { return left_ > 0; }
  void RunSlice(int64_t most_tokens, const ThreadPool::Pause&) override {
    const auto begin = std::chrono::steady_clock::now();
    if (end_.has_value()) shortest_pause = std::min(shortest_pause, begin - *end_);
    largest = std::max(largest, most_tokens);
    absl::SleepFor(absl::Milliseconds(20));
    end_ = std::chrono::steady_clock::now();
    if (--left_ == 0) done.set_value();
  }
  std::chrono::steady_clock::duration shortest_pause = std::chrono::hours(1);
  int64_t largest = 0;
  std::promise<void> done;

 private:
  int left_;
  std::optional<std::chrono::steady_clock::time_point> end_;
};

TEST(SchedulingTest, AStreamHasAsMuchTimeAsAnIngestBesideIt) {
  const TestOptions options = SmallOptions();
  auto engine = MakeEngine(options);
  const auto run = [&](int slices) {
    auto work = std::make_shared<SlowIngest>(slices);
    engine->scheduler_for_test().AddIngest(work);
    engine->scheduler_for_test().waker()();
    work->done.get_future().wait();
    engine->scheduler_for_test().RemoveIngest(work.get());
    return work;
  };
  EXPECT_EQ(run(1)->largest, options.ingest_slice_tokens);
  std::promise<void> begun;
  auto stream = std::make_shared<Collector>();
  stream->on_tokens = [&](int64_t n) {
    if (n == 1) begun.set_value();
  };
  const auto handle = engine->Generate(Ask(1 << 16), stream);
  begun.get_future().wait();
  const auto beside = run(5);
  EXPECT_EQ(beside->largest, options.shared_slice_tokens);
  // Lower bounds hold on a busy machine, too.
  EXPECT_GE(beside->shortest_pause, std::chrono::milliseconds(19));
  handle->Cancel();
  EXPECT_EQ(stream->Wait().status.code(), absl::StatusCode::kCancelled);
}

TEST(SchedulingTest, ALongPromptSharesItsStepsWithStreams) {
  auto engine = MakeEngine();
  std::string log;
  int64_t most_rows = 0;
  engine->scheduler_for_test().ObserveForTest(
      [&](TurnKind, int64_t rows) { most_rows = std::max(most_rows, rows); });
  auto streaming = std::make_shared<Collector>(), reading = std::make_shared<Collector>();
  Latch latch;
  std::shared_ptr<RequestHandle> second;
  streaming->on_tokens = [&](int64_t n) {
    if (n == 1) latch.Wait();
    log.push_back('t');
  };
  reading->on_tokens = [&](int64_t) { log.push_back('R'); };
  engine->Generate(Ask(60), streaming);
  GenerateRequest prompt = Ask(1);
  prompt.prompt.text = "";
  prompt.prompt.tokens = SampleTokens(128 * 20, 3);
  engine->Generate(prompt, reading);
  while (engine->stats().queued_requests + engine->stats().running_requests < 2)
    std::this_thread::yield();
  latch.Open();
  ASSERT_TRUE(streaming->Wait().status.ok());
  ASSERT_TRUE(reading->Wait().status.ok());
  engine->Shutdown(absl::InfinitePast());
  EXPECT_LE(most_rows, SmallOptions().prefill_slice_tokens + 2);
  EXPECT_GE(log.find('R'), 19u) << "one token of the stream for each of the prompt's slices: "
                                << log;
}

TEST(SchedulingTest, OthersGoOnWhileASessionWaitsForTheDisk) {
  auto owned = std::make_unique<GatedStore>(
      std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore()));
  GatedStore* gate = owned.get();
  auto engine = MakeEngine(SmallOptions(), std::move(owned));
  ASSERT_TRUE(Ingest(*engine, "doc", SampleText(9000, 1)).ok());
  const std::vector<int32_t> expected = Generate(*engine, Ask(100, {"doc"})).tokens;
  engine->tiers_for_test().Drop();
  gate->SetOpen(false);
  gate->waiting = false;
  auto waiting = std::make_shared<Collector>();
  engine->Generate(Ask(100, {"doc"}), waiting);
  gate->waiting.wait(false);
  EXPECT_EQ(Generate(*engine, Ask(50)).tokens.size(), 50u);
  gate->SetOpen(true);
  EXPECT_EQ(waiting->Wait().tokens, expected);
}

TEST(SchedulingTest, AFullQueueRefusesTheNext) {
  TestOptions options = SmallOptions();
  options.max_batch = 1;
  options.max_queued = 1;
  auto engine = MakeEngine(options);
  Latch latch;
  auto first = std::make_shared<Collector>(), second = std::make_shared<Collector>();
  first->on_tokens = [&](int64_t n) {
    if (n == 1) latch.Wait();
  };
  engine->Generate(Ask(3), first);
  engine->Generate(Ask(3), second);
  const Generated third = Generate(*engine, Ask(3));
  EXPECT_EQ(third.status.code(), absl::StatusCode::kResourceExhausted) << third.status;
  latch.Open();
  EXPECT_EQ(first->Wait().tokens, second->Wait().tokens);
  while (engine->stats().queued_requests + engine->stats().running_requests > 0)
    std::this_thread::yield();
  EXPECT_TRUE(Generate(*engine, Ask(3)).status.ok());
}

// As many answers at once as an engine keeps sessions leave no prompt waiting for one of them to
// end.
TEST(SchedulingTest, APromptBesideManyAnswersIsReadAtOnce) {
  TestOptions options = SmallOptions();
  options.max_batch = EngineOptions().max_batch;
  options.max_sessions = EngineOptions().max_sessions;
  auto engine = MakeEngine(options);
  const int64_t many = options.max_sessions - 1;
  ASSERT_LE(many, options.max_batch);
  std::vector<std::shared_ptr<Collector>> answers;
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (int64_t i = 0; i < many; ++i) {
    answers.push_back(std::make_shared<Collector>());
    handles.push_back(engine->Generate(Ask(1 << 16), answers.back()));
  }
  while (engine->stats().running_requests < many) std::this_thread::yield();
  const Generated one = Generate(*engine, Ask(3));
  EXPECT_EQ(one.tokens.size(), 3u) << one.status;
  EXPECT_GE(engine->stats().running_requests, many);
  for (const auto& handle : handles) handle->Cancel();
  for (const auto& answer : answers)
    EXPECT_EQ(answer->Wait().status.code(), absl::StatusCode::kCancelled);
}

TEST(SchedulingTest, CancelEndsARequestBetweenSteps) {
  auto engine = MakeEngine();
  const SessionId session = *engine->OpenSession({});
  auto collector = std::make_shared<Collector>();
  std::promise<std::shared_ptr<RequestHandle>> handle;
  std::shared_future<std::shared_ptr<RequestHandle>> future = handle.get_future().share();
  collector->on_tokens = [future](int64_t n) {
    if (n == 10) future.get()->Cancel();
  };
  GenerateRequest request = Ask(1 << 16);
  request.session = session;
  handle.set_value(engine->Generate(request, collector));
  EXPECT_EQ(collector->Wait().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(collector->Wait().tokens.size(), 10u);
  future.get()->Cancel();  // harmless
  // What was shown is part of the session: the next turn equals an uninterrupted one.
  request.prompt.text = " and then";
  request.max_tokens = 20;
  const Generated next = Generate(*engine, request);
  const SessionId other = *engine->OpenSession({});
  GenerateRequest whole = Ask(10);
  whole.session = other;
  EXPECT_EQ(Generate(*engine, whole).tokens, collector->Wait().tokens);
  request.session = other;
  EXPECT_EQ(Generate(*engine, request).tokens, next.tokens);
}

// Among the steps is one of a landmark alone, after which the token that was shown last still
// waits.
TEST(SchedulingTest, CancelledAfterAnyStepASessionHasWhatWasShown) {
  auto engine = MakeEngine();
  const auto turns = [&](int64_t first_tokens) {
    GenerateRequest request = Ask(first_tokens);
    request.session = *engine->OpenSession({});
    return std::pair(Generate(*engine, request).tokens, *request.session);
  };
  for (int cancelled_step = 60; cancelled_step <= 70; ++cancelled_step) {
    SCOPED_TRACE(cancelled_step);
    std::promise<std::shared_ptr<RequestHandle>> handle;
    int steps = 0;
    engine->scheduler_for_test().ObserveForTest([&](TurnKind, int64_t) {
      if (++steps == cancelled_step) handle.get_future().get()->Cancel();
    });
    GenerateRequest request = Ask(1 << 16);
    request.session = *engine->OpenSession({});
    auto collector = std::make_shared<Collector>();
    handle.set_value(engine->Generate(request, collector));
    const std::vector<int32_t> shown = collector->Wait().tokens;
    engine->scheduler_for_test().ObserveForTest(nullptr);
    GenerateRequest next = Ask(10);
    next.session = request.session;
    const std::vector<int32_t> after = Generate(*engine, next).tokens;
    const auto [tokens, uninterrupted] = turns(std::ssize(shown));
    EXPECT_EQ(tokens, shown);
    next.session = uninterrupted;
    EXPECT_EQ(Generate(*engine, next).tokens, after);
  }
}

// Asks again from the callback that ends a request.
class AsksAgain final : public GenerateEvents {
 public:
  explicit AsksAgain(std::function<void()> ask) : ask_(std::move(ask)) {}
  void OnTokens(const std::vector<int32_t>&, const std::string&) override {}
  void OnRetrieval(const Retrieval&) override {}
  void OnDone(FinishReason, const Usage&) override { ask_(); }
  void OnError(const absl::Status&) override { ask_(); }

 private:
  const std::function<void()> ask_;
};

TEST(SchedulingTest, HoweverARequestEndsItsPlaceAndItsSessionAreFree) {
  TestOptions options = SmallOptions();
  options.max_batch = options.max_queued = 1;
  auto engine = MakeEngine(options);
  const auto idle = [&] {
    while (engine->stats().queued_requests + engine->stats().running_requests > 0)
      std::this_thread::yield();
  };
  GenerateRequest good = Ask(0);
  good.session = *engine->OpenSession({});
  GenerateRequest nothing = good, bad = good, late = good, unknown = good;
  nothing.prompt.text = "";
  nothing.max_tokens = 1;
  bad.max_tokens = -1;
  late.deadline = SteadyNow() - absl::Seconds(1);
  unknown.session = SessionId{12345};
  const std::vector<std::pair<GenerateRequest, absl::StatusCode>> cases = {
      {good, absl::StatusCode::kOk},
      {nothing, absl::StatusCode::kInvalidArgument},  // by Plan
      {bad, absl::StatusCode::kInvalidArgument},
      {late, absl::StatusCode::kDeadlineExceeded},
      {unknown, absl::StatusCode::kNotFound},
      {Ask(1, {"no such document"}), absl::StatusCode::kNotFound}};
  for (const auto& [request, code] : cases) {
    SCOPED_TRACE(absl::StatusCodeToString(code));
    EXPECT_EQ(Generate(*engine, request).status.code(), code);
    idle();
    auto again = std::make_shared<Collector>();
    engine->Generate(request, std::make_shared<AsksAgain>([&] { engine->Generate(good, again); }));
    EXPECT_TRUE(again->Wait().status.ok()) << again->Wait().status;
    idle();
  }

  // Cancelled while it waits for the only one that may run.
  Latch latch;
  auto running = std::make_shared<Collector>(), waiting = std::make_shared<Collector>();
  running->on_tokens = [&](int64_t) { latch.Wait(); };
  engine->Generate(Ask(1), running);
  engine->Generate(good, waiting)->Cancel();
  latch.Open();
  EXPECT_EQ(waiting->Wait().status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(running->Wait().status.ok());
  idle();
  EXPECT_TRUE(Generate(*engine, good).status.ok());
  EXPECT_TRUE(engine->CloseSession(*good.session).ok());
  while (engine->stats().state_bytes > 0) std::this_thread::yield();
  EXPECT_EQ(engine->stats().sessions, 0);
}

TEST(SchedulingTest, ManyClientsAtOnce) {
  TestOptions options = SmallOptions();
  options.max_batch = 5;
  options.max_sessions = 64;
  auto engine = MakeEngine(options);
  ASSERT_TRUE(Ingest(*engine, "doc", SampleText(9000, 1)).ok());
  const std::vector<int32_t> expected = Generate(*engine, Ask(40, {"doc"})).tokens;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      for (int round = 0; round < 4; ++round) {
        EXPECT_EQ(Generate(*engine, Ask(40, {"doc"})).tokens, expected);
        const std::string id = "doc" + std::to_string(i) + "_" + std::to_string(round);
        EXPECT_TRUE(Ingest(*engine, id, SampleText(2000, i)).ok());
        EXPECT_TRUE(Generate(*engine, Ask(5, {id, "doc"})).status.ok());
        EXPECT_TRUE(engine->DeleteDocument(id).ok());
        engine->stats();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(engine->stats().data_loss_errors, 0);
}

}  // namespace
}  // namespace recollect::engine
