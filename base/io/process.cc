#include "base/io/process.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <system_error>

namespace recollect {
namespace {

double SecondsOf(clockid_t clock) {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The fields of /proc/self/stat from the third one on (proc(5)): the second is the program's name
// in brackets, which may have spaces and brackets of its own.
std::istringstream StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return std::istringstream(name_end == std::string::npos ? "" : line.substr(name_end + 1));
}

int64_t CountOpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return 0;
  return std::distance(begin(files), end(files)) - 1;  // the iterator has one open
}

}  // namespace

ProcessNumbers ReadProcess() {
  constexpr int kThreads = 20, kStart = 22, kVirtual = 23, kResident = 24;
  ProcessNumbers numbers;
  std::istringstream stat = StatFields();
  std::string field;
  for (int number = 3; number <= kResident && stat >> field; ++number) {
    std::istringstream value(field);
    if (number == kThreads) value >> numbers.threads;
    if (number == kVirtual) value >> numbers.virtual_bytes;
    if (number == kResident && value >> numbers.resident_bytes)
      numbers.resident_bytes *= sysconf(_SC_PAGESIZE);
    double ticks = 0;  // since the machine's start
    if (number == kStart && value >> ticks) {
      numbers.start_unix_s = SecondsOf(CLOCK_REALTIME) - SecondsOf(CLOCK_BOOTTIME) +
                             ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
  }
  numbers.cpu_s = SecondsOf(CLOCK_PROCESS_CPUTIME_ID);
  numbers.open_files = CountOpenFiles();
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    numbers.max_files =
        static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur, std::numeric_limits<int64_t>::max()));
  }
  return numbers;
}

}  // namespace recollect
