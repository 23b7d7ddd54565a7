// The time inside one process, for deadlines and for how long something took. Whoever sets the
// machine's clock changes absl::Now(), and would end calls and expire sessions with it; that one is
// for people and for what is written to files.
#ifndef RECOLLECT_BASE_CLOCK_H_
#define RECOLLECT_BASE_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"

namespace recollect {

// What the steady clock shows, which only ever goes forward. Its zero is arbitrary: such times are
// compared with each other only.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace recollect

#endif  // RECOLLECT_BASE_CLOCK_H_
