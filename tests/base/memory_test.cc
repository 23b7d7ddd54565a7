#include "base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace recollect {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Of this process, `more` bytes beyond what it has.
void BoundMemory(int64_t more) {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto bytes = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + more);
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
}

// Blocks of 1 MiB until there is none.
std::vector<std::string> TakeAll() {
  std::vector<std::string> blocks;
  blocks.reserve(10'000);
  try {
    while (blocks.size() < blocks.capacity()) blocks.emplace_back(kMiB, 'x');
  } catch (const std::bad_alloc&) {
  }
  return blocks;
}

// What follows bounds its process for good: each test runs in one of its own.
#define EXPECT_IN_CHILD(body)                              \
  EXPECT_EXIT(                                             \
      {                                                    \
        body();                                            \
        std::_Exit(::testing::Test::HasFailure() ? 1 : 0); \
      },                                                   \
      ::testing::ExitedWithCode(0), "")

TEST(MemoryTest, WithoutABoundNothingIsRefused) {
  EXPECT_TRUE(KeepMemoryReserve(int64_t{1} << 50).ok());
  EXPECT_TRUE(CheckMemory().ok());
}

TEST(MemoryTest, AStartThatDoesNotFitNamesBothSizes) {
  EXPECT_IN_CHILD([] {
    BoundMemory(200 * kMiB);
    const absl::Status status = KeepMemoryReserve(120 * kMiB);  // 64 and 32 more are kept
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_NE(status.message().find("are needed, the limit is "), absl::string_view::npos);
    EXPECT_TRUE(KeepMemoryReserve(10 * kMiB).ok());
  });
}

TEST(MemoryTest, WorkLeavesTheReserveAndIsRefusedUntilThereIsRoom) {
  EXPECT_IN_CHILD([] {
    BoundMemory(300 * kMiB);
    ASSERT_TRUE(KeepMemoryReserve(0).ok());
    EXPECT_TRUE(CheckMemory().ok());
    std::vector<std::string> work;
    const absl::Status status = OrExhausted("work", [&] {
      const MemoryScope scope(MemoryScope::kLeave);  // nested
      work = TakeAll();
      work.emplace_back(kMiB, 'x');
      return absl::OkStatus();
    });
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(status.message(), "work: out of memory");
    EXPECT_GT(work.size(), 150u);
    EXPECT_TRUE(absl::IsResourceExhausted(CheckMemory()));
    const std::vector<std::string> reserve = TakeAll();  // what need not leave it
    EXPECT_GT(reserve.size(), 50u);
    work.clear();
    EXPECT_TRUE(CheckMemory().ok());
    // The reserve is whole again: held by nobody, and left by work.
    work = OrExhausted("work", [&]() -> absl::StatusOr<std::vector<std::string>> {
             return TakeAll();
           }).value();
    EXPECT_GT(work.size(), 50u);
    EXPECT_TRUE(absl::IsResourceExhausted(CheckMemory()));
  });
}

}  // namespace
}  // namespace recollect
