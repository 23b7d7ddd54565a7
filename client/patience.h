// A time limit for retries at other servers. Internal to the library.
#pragma once

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace recollect::client {

// Returns the error for retries without success; `last`: the last failure.
inline absl::Status NoneLeft(const std::string& servers, const absl::Status& last) {
  return absl::UnavailableError(absl::StrCat("none of the servers ", servers,
                                             " answers any more; the last: ", last.message()));
}

// Limits the time of retries, from the first of a series of failures on. Used by one thread.
class Patience {
 public:
  explicit Patience(absl::Duration limit) : limit_(limit) {}

  // Ends the series, after a success: the next failure begins another one.
  void Renew() { failures_ = 0; }
  // Whether the next failure begins a series.
  bool fresh() const { return failures_ == 0; }
  // Waits a little after a failure and returns true, or returns false if the time is over.
  bool Wait() {
    if (failures_++ == 0) {
      since_ = SteadyNow();
      return true;  // another server is asked at once
    }
    const absl::Duration pause = std::min(kFirst * (1 << std::min(failures_, 6)), kMax);
    if (SteadyNow() + pause > since_ + limit_) return false;
    absl::SleepFor(pause);
    return true;
  }

 private:
  static constexpr absl::Duration kFirst = absl::Milliseconds(25), kMax = absl::Seconds(1);
  const absl::Duration limit_;
  int failures_ = 0;
  absl::Time since_;
};

}  // namespace recollect::client
