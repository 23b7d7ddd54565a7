// The time within one process, for deadlines and durations. Setting the machine's clock changes
// absl::Now(), which would end calls and expire sessions; absl::Now() is for times shown to people
// or written to files.
#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace recollect {

// The time of the steady clock, which never goes backward. Its zero is arbitrary: such times are
// only comparable with each other.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace recollect
