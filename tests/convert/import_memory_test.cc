// What an import holds in memory: not even one tensor, however many and large they are.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/convert/convert_testing.h"
#include "tests/convert/import_testing.h"

namespace recollect::convert {
namespace {

constexpr int64_t kFfn = int64_t{1} << 21;
constexpr int64_t kLargest = 4 * kFfn * int64_t{sizeof(float)};  // 32 MiB

// The most that this program has had resident so far. getrusage would begin with what the process
// had before it ran this program.
int64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return -1;
}

// Four tensors of 32 MiB. They are views of one storage, which keeps the file small and changes
// nothing for a reader: each view is a tensor of its own in what it writes.
std::vector<TestTensor> LargeRatPlus() {
  std::vector<TestTensor> tensors = TinyRatPlus();
  std::vector<float> values(static_cast<size_t>(4 * kFfn));
  for (TestTensor& tensor : tensors) {
    if (tensor.name.find("hidden_layer.fc") == std::string::npos) continue;
    for (int64_t& extent : tensor.shape) extent = extent == 16 ? kFfn : extent;
    tensor.storage = "ffn";
    tensor.values = std::move(values);  // the first view's are written, the others have none
  }
  return tensors;
}

using ImportMemoryTest = ImportFixture;

TEST_F(ImportMemoryTest, HoldsLessThanTheLargestTensor) {
  // Another process writes the checkpoint, so that this one's peak is the import's.
  const pid_t writer = fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    Use(LargeRatPlus());
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  ASSERT_EQ(status, 0);

  options_.plan.head_dim = 2;
  options_.type = WeightType::kBf16;
  const int64_t before = PeakBytes();
  ASSERT_GT(before, 0);
  const auto report = Import(options_);
  const int64_t held = PeakBytes() - before;
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->bytes, 2 * kLargest);  // all four, in half the bytes
  EXPECT_LT(held, kLargest);
}

}  // namespace
}  // namespace recollect::convert
