// The machine's clock as somebody would set it, in this process alone.
//   SetWallClockAhead(absl::Hours(48));
#pragma once

#include "absl/time/time.h"

namespace recollect {

// From now on CLOCK_REALTIME, and absl::Now() with it, is that far ahead of the machine's;
// negative: behind. Programs that link this take clock_gettime from here.
void SetWallClockAhead(absl::Duration ahead);

}  // namespace recollect
