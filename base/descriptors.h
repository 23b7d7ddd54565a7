// How the file descriptors that a process may have are divided. The store's tables come first, so
// that strangers who connect never take what a write needs.
#ifndef RECOLLECT_BASE_DESCRIPTORS_H_
#define RECOLLECT_BASE_DESCRIPTORS_H_

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace recollect {

// For logs, files in the making, polling and the like; an idle server has about 20.
inline constexpr int64_t kOtherDescriptors = 64;
inline constexpr int64_t kMaxTableDescriptors = 512;

// `ulimit -n`.
inline int64_t DescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int64_t>(std::min(limit.rlim_cur, rlim_t{1} << 30));
}

// As far as `ulimit -Hn` allows. Returns what the limit is then.
inline int64_t RaiseDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return DescriptorLimit();
}

// Takes those of standard input, output and error that the process was started without, so that no
// file or socket gets their number and with it what is read or printed there. Reading and printing
// still fail. For the beginning of main, before anything else is opened.
inline void OpenStandardDescriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest number that is free is given, and those below are taken.
    (void)!open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Tables that the store keeps open: half of what is left, if it needs so many.
inline int64_t TableDescriptors(int64_t limit) {
  return std::clamp<int64_t>((limit - kOtherDescriptors) / 2, 16, kMaxTableDescriptors);
}

// What is left for connections.
inline int64_t ConnectionDescriptors(int64_t limit) {
  return limit - kOtherDescriptors - TableDescriptors(limit);
}

}  // namespace recollect

#endif  // RECOLLECT_BASE_DESCRIPTORS_H_
