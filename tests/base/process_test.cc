#include "base/io/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

namespace recollect {
namespace {

TEST(ProcessTest, NumbersAreThoseOfThisProcess) {
  const ProcessNumbers before = ReadProcess();
  EXPECT_GT(before.resident_bytes, 0);
  EXPECT_GT(before.virtual_bytes, before.resident_bytes);
  EXPECT_GE(before.threads, 1);
  EXPECT_GT(before.open_files, 2);
  EXPECT_GT(before.max_files, before.open_files);
  // Of today, within what a test may have run for.
  const auto now = static_cast<double>(std::time(nullptr));
  EXPECT_LE(before.start_unix_s, now + 1);
  EXPECT_GT(before.start_unix_s, now - 3600);
}

TEST(ProcessTest, NumbersFollowWhatTheProcessTakes) {
  const ProcessNumbers before = ReadProcess();
  constexpr size_t kBytes = 64 << 20;
  std::vector<char> taken(kBytes, 'x');
  asm volatile("" : : "g"(taken.data()) : "memory");  // clang leaves out memory that nobody reads
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  std::atomic<bool> end{false};
  std::thread other([&] { end.wait(false); });
  const ProcessNumbers after = ReadProcess();
  EXPECT_GE(after.resident_bytes, before.resident_bytes + static_cast<int64_t>(kBytes) / 2);
  EXPECT_EQ(after.open_files, before.open_files + 1);
  EXPECT_EQ(after.threads, before.threads + 1);
  EXPECT_GT(after.cpu_s, before.cpu_s);
  EXPECT_NEAR(after.start_unix_s, before.start_unix_s, 1);
  end = true;
  end.notify_all();
  other.join();
  close(file);
}

}  // namespace
}  // namespace recollect
