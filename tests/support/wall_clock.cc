#include "tests/support/wall_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace {

std::atomic<int64_t> ahead_s{0};

}  // namespace

// In place of the C library's, which the packaged libraries call as well.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += ahead_s;
  return static_cast<int>(result);
}

namespace recollect {

void SetWallClockAhead(absl::Duration ahead) { ahead_s = absl::ToInt64Seconds(ahead); }

}  // namespace recollect
