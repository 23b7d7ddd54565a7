// Reads numbers about this process from the operating system.
#pragma once

#include <cstdint>

namespace recollect {

// Numbers about this process; 0 if one cannot be read.
struct ProcessNumbers {
  int64_t resident_bytes = 0, virtual_bytes = 0;
  int64_t threads = 0;
  int64_t open_files = 0, max_files = 0;  // descriptors, and the soft limit on them
  double cpu_s = 0;                       // of all threads, in user and kernel mode
  double start_unix_s = 0;
};

// Reads some files of /proc: for statistics, not for loops.
ProcessNumbers ReadProcess();

}  // namespace recollect
