// Memory that runs out anywhere in what the engine does for a request or an ingest: that one ends
// with RESOURCE_EXHAUSTED, whoever waits is told, and everything answers afterwards with the same
// tokens. RECOLLECT_MEMORY_ROUNDS=2000 and RECOLLECT_MEMORY_SEED=7 for more trials, and others.
#include "base/memory.h"

#include <atomic>
#include <cstdlib>
#include <future>
#include <new>
#include <random>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"

namespace {

// Allocations that may fail, until one does; negative: none does.
std::atomic<int64_t> left{-1};
std::atomic<int64_t> seen{0};

}  // namespace

void* operator new(size_t size) {
  using recollect::MemoryScope;
  if (MemoryScope::reserve() == MemoryScope::kLeave) {
    ++seen;
    if (left >= 0 && left.fetch_sub(1) == 0) throw std::bad_alloc();
  }
  if (void* const block = std::malloc(size)) return block;
  throw std::bad_alloc();
}
// Inlined, GCC would take the free for that of a pointer of another operator new.
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace recollect::engine {
namespace {

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

class EngineMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(IngestTokens(*engine_, "doc", SampleTokens(1500, 21)).ok()); }

  // All kinds of work at once; what each came to.
  struct Outcome {
    Generated alone, continued;
    std::vector<absl::Status> statuses;
  };
  Outcome Run() {
    Outcome outcome;
    auto ingest = std::async(std::launch::async, [&] {
      absl::Status status = IngestTokens(*engine_, "new", SampleTokens(1300, 5)).status();
      const absl::Status deleted = engine_->DeleteDocument("new");
      if (!absl::IsNotFound(deleted)) status.Update(deleted);
      return status;
    });
    const auto alone = std::make_shared<Collector>();
    engine_->Generate(TokensRequest(SampleTokens(300, 30), 40, {"doc"}), alone);
    auto score = std::async(std::launch::async, [&] {
      return Score(*engine_, ScoreOf(SampleTokens(200, 31))).status();
    });
    auto retrieve = std::async(std::launch::async, [&] {
      return Retrieve(*engine_, RetrieveOf(SampleTokens(100, 32), {"doc"})).status();
    });
    const auto session = OrExhausted("", [&] { return engine_->OpenSession({.mounts = {"doc"}}); });
    if (session.ok()) {
      outcome.continued = Generate(*engine_, TurnRequest(*session, SampleTokens(150, 33), 20));
      outcome.statuses.push_back(outcome.continued.status);
      outcome.statuses.push_back(engine_->CloseSession(*session));
    } else {
      outcome.statuses.push_back(session.status());
    }
    outcome.alone = alone->Wait();
    outcome.statuses.push_back(outcome.alone.status);
    for (auto* one : {&ingest, &score, &retrieve}) outcome.statuses.push_back(one->get());
    return outcome;
  }

  std::unique_ptr<EngineImpl> engine_ = MakeEngine();
};

TEST_F(EngineMemoryTest, OpeningASessionSurvivesEachAllocationThatFails) {
  const auto open = [&] {
    return OrExhausted("", [&] { return engine_->OpenSession({.mounts = {"doc", "do*"}}); });
  };
  int64_t place = 0;
  for (bool failed = true; failed; ++place) {
    left = place;
    const auto session = open();
    failed = left < 0;
    left = -1;
    EXPECT_EQ(session.ok(), !failed) << session.status();
    if (session.ok()) {
      EXPECT_TRUE(engine_->CloseSession(*session).ok());
    }
  }
  EXPECT_GT(place, 10);
  EXPECT_TRUE(open().ok());
}

TEST_F(EngineMemoryTest, AnAllocationThatFailsEndsItsRequestAndNothingElse) {
  const int64_t rounds = FromEnvironment("RECOLLECT_MEMORY_ROUNDS", 60);
  std::mt19937_64 random(static_cast<uint64_t>(FromEnvironment("RECOLLECT_MEMORY_SEED", 1)));
  seen = 0;
  const Outcome expected = Run();
  const int64_t places = seen;
  EXPECT_GT(places, 1000);
  for (const absl::Status& status : expected.statuses) EXPECT_TRUE(status.ok()) << status;
  int failed = 0;
  for (int64_t round = 0; round < rounds && !HasFailure(); ++round) {
    const int64_t place = static_cast<int64_t>(random() % static_cast<uint64_t>(places));
    SCOPED_TRACE(testing::Message() << "round " << round << ", allocation " << place);
    left = place;
    const Outcome short_of_memory = Run();
    left = -1;
    for (const absl::Status& status : short_of_memory.statuses) {
      EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
      failed += !status.ok();
    }
    engine_->tiers_for_test().Drop();  // what failed may have been a part of it
    const Outcome after = Run();
    for (const absl::Status& status : after.statuses) EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(after.alone.tokens, expected.alone.tokens);
    EXPECT_EQ(after.continued.tokens, expected.continued.tokens);
    EXPECT_EQ(engine_->stats().sessions, 0);
  }
  EXPECT_GT(failed, rounds / 4);
  std::printf("%d calls of %lld rounds failed, %lld allocations in each\n", failed,
              static_cast<long long>(rounds), static_cast<long long>(places));
  engine_->Shutdown(SteadyNow() + absl::Seconds(30));
  EXPECT_EQ(engine_->stats().state_bytes, 0);
  EXPECT_EQ(engine_->stats().queued_requests, 0);
}

}  // namespace
}  // namespace recollect::engine
