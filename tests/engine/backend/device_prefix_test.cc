// Prefixes and sessions of a family without landmarks with its layers on a device, which is the
// host, running the thread blocks of the CUDA operations: the CPU's tokens, the CPU's records.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/engine/session/prefix_testing.h"
#include "tests/kernels/device/host_device.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

class DevicePrefixTest : public PrefixTest {
 protected:
  DevicePrefixTest() { device_ = host_; }

  // An engine on the device, or on the CPU, over a store that engines share one after the other.
  std::unique_ptr<EngineImpl> Over(bool on_device, TestOptions options = SmallOptions()) {
    auto store = std::make_unique<ForwardingStore>(store_);
    return on_device ? Make(options, std::move(store))
                     : MakeEngine(options, std::move(store), model_);
  }
  std::string StoredState(const std::string& id, int64_t tokens) {
    const auto info = store_->Get(id);
    EXPECT_TRUE(info.ok()) << info.status();
    StateBudget budget(1 << 30);
    StateCharge charge;
    const auto state = RestoreState(*model_, default_, *store_,
                                    {info->owner, info->state_bytes, tokens - 1}, budget, charge);
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? state->Serialize() : "";
  }

  const std::shared_ptr<kernels::HostDevice> host_ = std::make_shared<kernels::HostDevice>();
  const std::shared_ptr<store::DocumentStore> store_ = store::CreateMemoryStore();
};

TEST_F(DevicePrefixTest, TokensAreThoseOfTheCpu) {
  const auto cpu = Over(false), engine = Make();
  EXPECT_EQ(engine->stats().backend, host_->name());
  EXPECT_EQ(engine->stats().landmark_index, "cpu");
  EXPECT_GT(engine->stats().device_total_bytes, 0);
  const std::vector<int32_t> tokens = SampleTokens(300, 3);
  for (const auto& [name, options] : PrefixPatterns()) {
    SCOPED_TRACE(name);
    const std::vector<int32_t> expected = Read(*cpu, options, tokens, 40);
    ASSERT_EQ(expected.size(), 40u);
    EXPECT_EQ(Read(*engine, options, tokens, 40), expected);
    for (const int64_t split : {1, 64, 257, 300}) {
      const std::string id = absl::StrCat(name, split);
      ASSERT_TRUE(IngestTokens(*engine, id, Part(tokens, 0, split), options).ok());
      const Generated after = Generate(*engine, After(id, options, Part(tokens, split, 300), 40));
      ASSERT_TRUE(after.status.ok()) << after.status;
      EXPECT_EQ(after.tokens, expected) << "split at " << split;
    }
  }
}

// What one has written, the other goes on with.
TEST_F(DevicePrefixTest, APrefixServesEitherBackend) {
  const std::vector<int32_t> tokens = SampleTokens(300, 5);
  const std::vector<int32_t> expected = Read(*Over(false), {}, tokens, 40);
  for (const bool written_on_device : {false, true}) {
    const std::string id = written_on_device ? "device" : "cpu";
    ASSERT_TRUE(IngestTokens(*Over(written_on_device), id, Part(tokens, 0, 200)).ok());
    const auto other = Over(!written_on_device);
    EXPECT_EQ(Generate(*other, After(id, {}, Part(tokens, 200, 300), 40)).tokens, expected) << id;
  }
}

TEST_F(DevicePrefixTest, SlicesAndCommitsDoNotChangeWhatIsStored) {
  const std::vector<int32_t> tokens = SampleTokens(2000, 9);
  ASSERT_TRUE(IngestTokens(*Over(true), "whole", tokens).ok());
  const std::string expected = StoredState("whole", 2000);
  for (const int64_t slice : {7, 100}) {
    TestOptions options = SmallOptions();
    options.ingest_slice_tokens = slice;
    options.commit_tokens = 300;
    const std::string id = absl::StrCat(slice);
    ASSERT_TRUE(IngestTokens(*Over(true, options), id, tokens).ok());
    EXPECT_TRUE(StoredState(id, 2000) == expected) << slice;
  }
}

// What only queues work would seem to take no time, and put all of it before others' next step.
TEST_F(DevicePrefixTest, SlicesAndPrefillsWaitForTheirWork) {
  TestOptions options = SmallOptions();
  options.ingest_slice_tokens = 100;
  const auto engine = Over(true, options);
  const std::vector<int32_t> tokens = SampleTokens(400, 8);
  ASSERT_TRUE(IngestTokens(*engine, "doc", Part(tokens, 0, 300)).ok());
  const int64_t by_ingest = host_->waits();
  EXPECT_GE(by_ingest, 3);
  ASSERT_TRUE(Generate(*engine, TokensRequest(tokens, 1)).status.ok());
  EXPECT_GT(host_->waits(), by_ingest);
}

// From the moment it is mounted, not only from the session's first step on.
TEST_F(DevicePrefixTest, TheBudgetCountsWhatAPrefixTakesOnTheDevice) {
  SessionOptions options;
  options.top_k_blocks = 3;
  for (const SessionOptions& like : {SessionOptions(), options}) {
    const std::string id = absl::StrCat("doc", like.top_k_blocks);
    ASSERT_TRUE(IngestTokens(*Over(true), id, SampleTokens(300, 7), like).ok());
    const auto engine = Over(true);
    SessionOptions mounting = like;
    mounting.mounts = {id};
    const int64_t before = host_->bytes();
    const auto session = engine->OpenSession(mounting);
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_GT(host_->bytes(), before);
    EXPECT_EQ(engine->stats().state_bytes, host_->bytes() - before);
  }
}

TEST_F(DevicePrefixTest, MemoryThatRunsOutEndsWhatNeededIt) {
  const auto engine = Make();
  const std::vector<int32_t> tokens = SampleTokens(400, 6);
  ASSERT_TRUE(IngestTokens(*engine, "doc", Part(tokens, 0, 300)).ok());
  const GenerateRequest request = After("doc", {}, Part(tokens, 300, 400), 20);
  const Generated before = Generate(*engine, request);
  ASSERT_TRUE(before.status.ok()) << before.status;
  host_->LimitBytes(0);
  for (const absl::Status& status :
       {Generate(*engine, request).status, IngestTokens(*engine, "other", tokens).status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, "bytes of device memory"));
  }
  host_->LimitBytes(int64_t{1} << 30);
  EXPECT_EQ(Generate(*engine, request).tokens, before.tokens);
  host_->LoseAfter(20);
  EXPECT_EQ(Generate(*engine, request).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(IngestTokens(*engine, "other", tokens).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine->health().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace recollect::engine
