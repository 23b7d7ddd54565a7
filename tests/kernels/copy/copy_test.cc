#include <gmock/gmock.h>

#include "kernels/copy/copy_kernel.h"
#include "tests/kernels/copy/copy_cases.h"
#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/test_device.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

class CopyDeviceTest : public OnTestDevice {};

TEST_F(CopyDeviceTest, CopiesAllThatIsAskedAndNoMore) {
  for (const copy_cases::Call& call : copy_cases::CallsOfAllLengths()) {
    copy_cases::ExpectCopied(device(), call);
  }
  copy_cases::ExpectCopied(device(), copy_cases::CallOfManyShortAndOneLong());
}

// More slices than a device holds warps.
TEST_F(CopyDeviceTest, CopiesOfManySequences) {
  copy_cases::Call rows = copy_cases::CallOf(100'000);
  for (int64_t i = 0; i < 20'000; ++i) rows.Add(256, 0, 0);
  copy_cases::ExpectCopied(device(), rows);
  copy_cases::Call documents = copy_cases::CallOf(1'000'000);
  for (int64_t i = 0; i < 5; ++i) documents.Add(900'000 + i, 0, i % 4);
  copy_cases::ExpectCopied(device(), documents);
}

TEST(CopyBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  const std::vector<copy_cases::Call> calls = copy_cases::CallsOfAllLengths();
  for (HostOrder order : kHostOrders) {
    SCOPED_TRACE(static_cast<int>(order));
    HostDevice host(order);
    copy_cases::ExpectCopied(host, calls[calls.size() - 2]);  // all in one
  }
}

TEST(CopyPlanTest, FewLongCopiesFillADeviceAndManyShortOnesTakeAWarpEach) {
  const auto slices = [](int64_t count, int64_t most_bytes) {
    const auto plan = PlanCopy(count, most_bytes);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan->slices;
  };
  constexpr int64_t kPiece = cuda::kCopyWarpBytes;
  EXPECT_EQ(slices(0, 100), 0);
  EXPECT_EQ(slices(100, 0), 0);
  EXPECT_EQ(slices(1, 4), 1);
  EXPECT_EQ(slices(5000, 1024), 1);
  EXPECT_EQ(slices(100'000, kPiece), 1);
  EXPECT_EQ(slices(1, kPiece + 4), 2);
  EXPECT_EQ(slices(1, int64_t{16} << 20), 8192);  // a piece each
  EXPECT_EQ(slices(4, int64_t{16} << 20), 4096);  // as many as fill the device
  // No warp takes more than 32 pieces.
  EXPECT_EQ(slices(5000, int64_t{1} << 20), 16);
  EXPECT_EQ(slices(1, int64_t{4} << 30), (int64_t{4} << 30) / (32 * kPiece));
}

TEST(CopyPlanTest, RefusesWhatNoLaunchTakes) {
  const auto message = [](int64_t count, int64_t most_bytes) {
    const absl::Status status = PlanCopy(count, most_bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(message(-1, 4), "-1 copies of up to 4 bytes");
  EXPECT_EQ(message(1, -4), "1 copies of up to -4 bytes");
  EXPECT_THAT(message(int64_t{1} << 34, 4), HasSubstr("too many for one launch"));
  EXPECT_THAT(message(int64_t{1} << 40, int64_t{1} << 60), HasSubstr("too many for one launch"));
}

TEST(CopyPlanTest, ChecksCopies) {
  alignas(16) char memory[64] = {};
  const auto message = [&](int64_t from, int64_t to, int64_t bytes) {
    const DeviceCopy copies[] = {{memory, memory + 32, 4}, {memory + from, memory + to, bytes}};
    const absl::Status status = CheckCopies(copies, 16);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    }
    return std::string(status.message());
  };
  EXPECT_EQ(message(0, 16, 16), "");
  EXPECT_EQ(message(16, 0, 16), "");
  EXPECT_EQ(message(8, 8, 0), "");
  EXPECT_THAT(message(0, 32, 20), HasSubstr("copy 1 of 20 bytes"));
  EXPECT_THAT(message(0, 32, 20), HasSubstr("the longest of 16: not within"));
  EXPECT_THAT(message(0, 32, -4), HasSubstr("not within the longest"));
  EXPECT_THAT(message(2, 32, 4), HasSubstr("no multiples of 4"));
  EXPECT_THAT(message(0, 33, 4), HasSubstr("no multiples of 4"));
  EXPECT_THAT(message(0, 32, 6), HasSubstr("no multiples of 4"));
  EXPECT_THAT(message(0, 12, 16), HasSubstr("overlap"));
  EXPECT_THAT(message(12, 0, 16), HasSubstr("overlap"));
}

}  // namespace
}  // namespace recollect::kernels
