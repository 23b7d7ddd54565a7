// Runs ingests beside a stream, for engine_testing.h.
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"

namespace recollect::engine {

std::string TurnsBesideAStream(EngineImpl& engine, std::vector<int32_t> tokens) {
  std::string log;  // written by the scheduler's thread alone
  engine.scheduler_for_test().ObserveForTest(
      [&](TurnKind kind, int64_t) { log.push_back("spi"[static_cast<int>(kind)]); });
  std::promise<void> begun;
  auto collector = std::make_shared<Collector>();
  collector->on_tokens = [&](int64_t so_far) {
    log.push_back('t');
    if (so_far == 1) begun.set_value();
  };
  const auto handle = engine.Generate(TokensRequest(SampleTokens(5, 1), 1 << 16), collector);
  begun.get_future().wait();
  auto stream = *engine.BeginIngest("beside", /*from_tokens=*/true, {});
  EXPECT_EQ(AppendTokens(*stream, 0, std::move(tokens)).status(), absl::OkStatus());
  handle->Cancel();
  EXPECT_EQ(collector->Wait().status.code(), absl::StatusCode::kCancelled);
  engine.Shutdown(absl::InfinitePast());
  return log.substr(log.find('i'), log.rfind('i') + 1 - log.find('i'));
}

absl::Status IngestBesideAStream(EngineImpl& engine, const std::vector<int32_t>& tokens,
                                 std::function<void(IngestStream&)> paused) {
  auto stream = *engine.BeginIngest("beside", /*from_tokens=*/true, {});
  engine.scheduler_for_test().ObserveForTest([&](TurnKind kind, int64_t) {
    if (kind == TurnKind::kIngestPause) paused(*stream);
  });
  std::promise<void> begun, answered;
  auto collector = std::make_shared<Collector>();
  collector->on_tokens = [&](int64_t so_far) {
    if (so_far == 1) begun.set_value();
  };
  const auto handle = engine.Generate(TokensRequest(SampleTokens(5, 1), 1 << 16), collector);
  begun.get_future().wait();
  stream->AppendTokens(0, tokens, [&](const auto&) { answered.set_value(); });
  const absl::Status status = Finish(*stream).status();
  answered.get_future().wait();
  handle->Cancel();
  EXPECT_EQ(collector->Wait().status.code(), absl::StatusCode::kCancelled);
  engine.scheduler_for_test().ObserveForTest(nullptr);
  return status;
}

}  // namespace recollect::engine
