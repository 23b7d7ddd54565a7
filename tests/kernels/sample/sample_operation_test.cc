#include "kernels/sample/sample_operation.h"

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/test_device.h"
#include "tests/kernels/sample/sample_operation_cases.h"

namespace recollect::kernels {
namespace {

using sample_cases::Choices;
using sample_cases::Expected;
using sample_cases::kInf;
using sample_cases::Settings;

class SampleDeviceTest : public OnTestDevice {
 protected:
  Choices Run(const std::vector<float>& logits, const Settings& settings,
              const NeverChosen& never = {}, size_t shift = 0) const {
    return sample_cases::RunOnDevice(device(), logits, settings, never, shift);
  }
};

// Rows with few different logits, many of them equal and some NaN or infinite.
TEST_F(SampleDeviceTest, AgreesWithTheHost) {
  const float strange[] = {std::nanf(""), -kInf, kInf, -0.0f};
  const Settings settings = sample_cases::AllSettings();
  for (int64_t vocab : {1, 2, 3, 5, 16, 17, 300, 4096, 4098}) {
    std::vector<float> logits =
        Normals(static_cast<int64_t>(settings.size()) * vocab, static_cast<uint32_t>(vocab));
    for (size_t i = 0; i < logits.size(); ++i) {
      const size_t row = i / static_cast<size_t>(vocab);
      if (row % 3 > 0) logits[i] = std::round(logits[i] * static_cast<float>(row % 3));
      if (row % 4 == 1 && i % 7 == 0) logits[i] = strange[row / 4 % 4];
    }
    for (const NeverChosen& never : {NeverChosen{}, NeverChosen{1, 0}, NeverChosen{-1, 3}}) {
      const Choices expected = Expected(logits, settings, never);
      for (size_t shift : {0, 1}) {
        EXPECT_EQ(Run(logits, settings, never, shift), expected)
            << vocab << ", never " << never.first << ", " << never.second << ", shift " << shift;
      }
    }
  }
}

// A missing barrier, and threads of a phase that depend on each other, would show. So many logits
// that a thread loads several times.
TEST(SampleBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  const Settings settings = {{}, {.temperature = 0.9f, .top_k = 50, .top_p = 0.9, .draw = 0.6}};
  const std::vector<float> logits = Normals(2 * 17001, 1);
  const Choices expected = Expected(logits, settings, {});
  for (HostOrder order : kHostOrders) {
    HostDevice host(order);
    EXPECT_EQ(sample_cases::RunOnDevice(host, logits, settings), expected)
        << static_cast<int>(order);
  }
}

// Equal logits, so that the index alone decides, digit by digit.
TEST_F(SampleDeviceTest, ManyEquals) {
  const Settings settings = {{.temperature = 1, .draw = 0.3},
                             {.temperature = 1, .top_k = 65537, .top_p = 0.999, .draw = 0.999}};
  const std::vector<float> logits(2 * 70001, 1.0f);
  EXPECT_EQ(Run(logits, settings), Expected(logits, settings, {}));
}

TEST_F(SampleDeviceTest, TiesAndLogitsThatAreNoNumbers) {
  sample_cases::ExpectOrder([&](const std::vector<float>& logits, const Settings& settings,
                                const NeverChosen& never) { return Run(logits, settings, never); });
}

TEST_F(SampleDeviceTest, NoLogitsNoChoice) {
  const Settings settings = {{}, {.temperature = 1}, {.temperature = 1, .top_k = 2, .top_p = 0.5}};
  EXPECT_EQ(Run({}, settings), Choices(3, -1));
  EXPECT_EQ(Run({}, {}), Choices());
}

}  // namespace
}  // namespace recollect::kernels
