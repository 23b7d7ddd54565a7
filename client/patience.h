// How long something is tried at other servers. Internal to the library.
#ifndef RECOLLECT_CLIENT_PATIENCE_H_
#define RECOLLECT_CLIENT_PATIENCE_H_

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace recollect::client {

// What is said when that was in vain; `last`: the last failure.
inline absl::Status NoneLeft(const std::string& servers, const absl::Status& last) {
  return absl::UnavailableError(absl::StrCat("none of the servers ", servers,
                                             " answers any more; the last: ", last.message()));
}

// From the first of a row of failures on. Used by one thread.
class Patience {
 public:
  explicit Patience(absl::Duration limit) : limit_(limit) {}

  // Something was reached: the next failure is the first of another row.
  void Renew() { failures_ = 0; }
  // Whether the next failure is the first of a row.
  bool fresh() const { return failures_ == 0; }
  // After a failure. Waits a little and returns true, as long as there is time.
  bool Wait() {
    if (failures_++ == 0) {
      since_ = SteadyNow();
      return true;  // another server is asked at once
    }
    const absl::Duration pause = std::min(kFirst * (1 << std::min(failures_, 6)), kMost);
    if (SteadyNow() + pause > since_ + limit_) return false;
    absl::SleepFor(pause);
    return true;
  }

 private:
  static constexpr absl::Duration kFirst = absl::Milliseconds(25), kMost = absl::Seconds(1);
  const absl::Duration limit_;
  int failures_ = 0;
  absl::Time since_;
};

}  // namespace recollect::client

#endif  // RECOLLECT_CLIENT_PATIENCE_H_
