// The machine's clock as somebody would set it, in this process alone.
//   SetWallClockAhead(absl::Hours(48));
#ifndef RECOLLECT_TESTS_SUPPORT_WALL_CLOCK_H_
#define RECOLLECT_TESTS_SUPPORT_WALL_CLOCK_H_

#include "absl/time/time.h"

namespace recollect {

// From now on CLOCK_REALTIME, and absl::Now() with it, is that far ahead of the machine's;
// negative: behind. Programs that link this take clock_gettime from here.
void SetWallClockAhead(absl::Duration ahead);

}  // namespace recollect

#endif  // RECOLLECT_TESTS_SUPPORT_WALL_CLOCK_H_
