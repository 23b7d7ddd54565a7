// What a slice of an ingest promises that comes to rest while steps of sessions run.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"

namespace recollect::engine {
namespace {

TEST(RestingSliceTest, ASliceThatRestsGivesTheSameDocument) {
  const std::vector<int32_t> tokens = SampleTokens(60 * 63, 1);
  const auto ingest = [&](int threads, bool beside) {
    TestOptions options = OneSliceOptions();
    options.threads = threads;
    const std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
    auto engine = MakeEngine(options, std::make_unique<ForwardingStore>(store));
    int pauses = 0;
    EXPECT_EQ(beside ? IngestBesideAStream(*engine, tokens, [&](IngestStream&) { ++pauses; })
                     : IngestTokens(*engine, "beside", tokens).status(),
              absl::OkStatus());
    EXPECT_EQ(pauses > 0, beside);
    return DumpDocument(*store, "beside", engine->model().config().key_width());
  };
  const std::string alone = ingest(2, false);
  for (const int threads : {1, 2, 4}) EXPECT_TRUE(ingest(threads, true) == alone) << threads;
}

TEST(RestingSliceTest, AnIngestMayBeCancelledWhileItsSliceRests) {
  auto engine = MakeEngine(OneSliceOptions());
  const absl::Status status = IngestBesideAStream(
      *engine, SampleTokens(60 * 63, 1), [](IngestStream& stream) { stream.handle()->Cancel(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(Generate(*engine, TokensRequest(SampleTokens(5, 1), 5)).tokens.size(), 5u);
  EXPECT_TRUE(IngestTokens(*engine, "beside", SampleTokens(500, 1)).ok());
}

}  // namespace
}  // namespace recollect::engine
