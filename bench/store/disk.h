// Helpers of the store's benchmarks: files out of the page cache, percentiles, the disk's own
// speed.
#ifndef RECOLLECT_BENCH_STORE_DISK_H_
#define RECOLLECT_BENCH_STORE_DISK_H_

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace recollect::bench {

inline double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline std::vector<std::string> Files(const std::string& directory) {
  std::vector<std::string> out;
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory)) {
    if (file.is_regular_file()) out.push_back(file.path().string());
  }
  return out;
}

inline double DirectoryBytes(const std::string& directory) {
  double total = 0;
  for (const std::string& file : Files(directory)) {
    total += static_cast<double>(std::filesystem::file_size(file));
  }
  return total;
}

// Makes the next read of every file go to the disk.
inline void DropCaches(const std::string& directory) {
  for (const std::string& file : Files(directory)) {
    const int fd = open(file.c_str(), O_RDONLY);
    if (fd < 0) continue;
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

// Returns the bytes per second of reading every file from front to back, cold.
inline double SequentialRead(const std::string& directory) {
  DropCaches(directory);
  std::vector<char> buffer(1 << 20);
  double bytes = 0;
  const double start = Seconds();
  for (const std::string& file : Files(directory)) {
    const int fd = open(file.c_str(), O_RDONLY);
    if (fd < 0) continue;
    for (ssize_t n; (n = read(fd, buffer.data(), buffer.size())) > 0;) {
      bytes += static_cast<double>(n);
    }
    close(fd);
  }
  return bytes / (Seconds() - start);
}

inline double Percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1))];
}

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_STORE_DISK_H_
