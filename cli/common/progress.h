// A progress bar on standard error if that is a terminal; otherwise nothing.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"

namespace recollect::cli {

class ProgressBar {
 public:
  // `total` is in the unit of Update; 0: unknown.
  ProgressBar(std::string label, int64_t total);
  ~ProgressBar();  // leaves the last state on its line

  // Redraws at most ten times a second. `note` follows the bar: "12 345 tokens, 8 000 tokens/s".
  // What the first call has done may be from before: the time left follows from what came after it.
  void Update(int64_t done, const std::string& note);

 private:
  void Draw();

  const std::string label_;
  const int64_t total_;
  const bool terminal_;
  int64_t begun_ = -1;  // done at the first Update
  int64_t done_ = 0;
  std::string note_;
  bool drawn_ = false;
  absl::Time start_ = SteadyNow();
  absl::Time last_draw_ = absl::InfinitePast();
};

// The line without its carriage return: "books [####....]  50 %  note  1m 5s left". `elapsed` is
// the time since `begun` was done.
std::string FormatProgress(const std::string& label, int64_t done, int64_t total,
                           const std::string& note, absl::Duration elapsed, int64_t begun = 0);

}  // namespace recollect::cli
