#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"

namespace recollect::cli {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

std::string FormatProgress(const std::string& label, int64_t done, int64_t total,
                           const std::string& note, absl::Duration elapsed) {
  if (total <= 0) return absl::StrCat(label, "  ", note);
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const int full = static_cast<int>(share * kBarWidth);
  std::string line = absl::StrFormat("%s [%s%s] %3.0f %%  %s", label, std::string(full, '#'),
                                     std::string(kBarWidth - full, '.'), share * 100, note);
  if (share > 0.01 && share < 1) {
    const absl::Duration left = elapsed / share - elapsed;
    absl::StrAppend(&line, "  ", absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))), " left");
  }
  return line;
}

ProgressBar::ProgressBar(std::string label, int64_t total)
    : label_(std::move(label)), total_(total), enabled_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (!drawn_) return;
  Draw();
  std::fputc('\n', stderr);
}

void ProgressBar::Update(int64_t done, const std::string& note) {
  done_ = done;
  note_ = note;
  if (!enabled_ || SteadyNow() - last_draw_ < absl::Milliseconds(100)) return;
  Draw();
}

void ProgressBar::Draw() {
  drawn_ = true;
  last_draw_ = SteadyNow();
  // Clears what a longer line left behind.
  std::fprintf(stderr, "\r%s\033[K",
               FormatProgress(label_, done_, total_, note_, last_draw_ - start_).c_str());
  std::fflush(stderr);
}

}  // namespace recollect::cli
