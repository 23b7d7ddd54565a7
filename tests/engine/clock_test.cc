// Somebody sets the machine's clock while the engine runs.
#include "absl/time/clock.h"

#include "absl/time/time.h"
#include "base/clock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/wall_clock.h"

namespace recollect::engine {
namespace {

GenerateRequest Ask(int64_t max_tokens) {
  GenerateRequest request;
  request.prompt.tokens = {5, 6, 7};
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

class ClockTest : public ::testing::Test {
 protected:
  void TearDown() override { SetWallClockAhead(absl::ZeroDuration()); }
};

TEST_F(ClockTest, TheWallClockCanBeSetHere) {
  const absl::Time before = absl::Now(), steady = SteadyNow();
  SetWallClockAhead(absl::Hours(48));
  EXPECT_GE(absl::Now() - before, absl::Hours(48));
  EXPECT_LT(SteadyNow() - steady, absl::Hours(1));
}

TEST_F(ClockTest, SetForwardItExpiresNoSessionAndEndsNoCall) {
  auto engine = MakeEngine();
  GenerateRequest request = Ask(20);
  request.session = *engine->OpenSession({});
  request.deadline = SteadyNow() + absl::Hours(1);
  SetWallClockAhead(absl::Hours(48));
  EXPECT_TRUE(engine->GetSession(*request.session).ok());
  EXPECT_TRUE(Generate(*engine, request).status.ok());
}

TEST_F(ClockTest, SetBackItLeavesDeadlinesAsTheyAre) {
  auto engine = MakeEngine();
  GenerateRequest request = Ask(1 << 16);
  request.deadline = SteadyNow() + absl::Milliseconds(50);
  SetWallClockAhead(-absl::Hours(48));
  EXPECT_EQ(Generate(*engine, request).status.code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace recollect::engine
