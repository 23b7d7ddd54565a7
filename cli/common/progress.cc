#include "cli/common/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace recollect::cli {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

std::string FormatProgress(const std::string& label, int64_t done, int64_t total,
                           const std::string& note, absl::Duration elapsed, int64_t begun) {
  if (total <= 0) return absl::StrCat(label, "  ", note);
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const int full = static_cast<int>(share * kBarWidth);
  std::string line = absl::StrFormat("%s [%s%s] %3.0f %%  %s", label, std::string(full, '#'),
                                     std::string(kBarWidth - full, '.'), share * 100, note);
  if (share < 1 && static_cast<double>(done - begun) > 0.01 * static_cast<double>(total)) {
    const absl::Duration left =
        elapsed * (static_cast<double>(total - done) / static_cast<double>(done - begun));
    absl::StrAppend(&line, "  ", absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))), " left");
  }
  return line;
}

ProgressBar::ProgressBar(std::string label, int64_t total)
    : label_(std::move(label)), total_(total), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (!drawn_) return;
  Draw();
  std::fputc('\n', stderr);
}

void ProgressBar::Update(int64_t done, const std::string& note) {
  done_ = done;
  note_ = note;
  const absl::Time now = SteadyNow();
  if (begun_ < 0) {
    begun_ = done;
    start_ = now;
  }
  if (!terminal_ || now - last_draw_ < absl::Milliseconds(100)) return;
  Draw();
}

void ProgressBar::Draw() {
  drawn_ = true;
  last_draw_ = SteadyNow();
  const std::string line =
      FormatProgress(label_, done_, total_, note_, last_draw_ - start_, begun_);
  // Clears what a longer line left behind.
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
}

}  // namespace recollect::cli
