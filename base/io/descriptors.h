// Divides the file descriptors of a process between the store's tables and connections. The tables
// come first, so that strangers who connect never take a descriptor that a write needs.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace recollect {

// Descriptors for logs, files that are being written, polling and the like; an idle server has
// about 20.
inline constexpr int64_t kOtherDescriptors = 64;
inline constexpr int64_t kMaxTableDescriptors = 512;

// Returns the soft limit (`ulimit -n`), at most 2^30.
inline int64_t DescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int64_t>(std::min(limit.rlim_cur, rlim_t{1} << 30));
}

// Raises the soft limit to the hard limit (`ulimit -Hn`). Returns the new limit.
inline int64_t RaiseDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return DescriptorLimit();
}

// Opens those of standard input, output and error that the process was started without, so that no
// file or socket gets their number and is read or printed to instead. Reading and printing still
// fail. Call it at the beginning of main, before anything else is opened.
inline void OpenStandardDescriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) != -1 || errno != EBADF) continue;
    // open() takes the lowest free number, and all lower ones are in use.
    (void)!open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Returns the number of tables that the store may keep open: half of the remaining descriptors, at
// least 16 and at most kMaxTableDescriptors.
inline int64_t TableDescriptors(int64_t limit) {
  return std::clamp<int64_t>((limit - kOtherDescriptors) / 2, 16, kMaxTableDescriptors);
}

// Returns the number of descriptors that remain for connections.
inline int64_t ConnectionDescriptors(int64_t limit) {
  return limit - kOtherDescriptors - TableDescriptors(limit);
}

}  // namespace recollect
