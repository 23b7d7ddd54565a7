#include "kernels/sample/sample_kernel.h"

#include "tests/kernels/sample/sample_device_checks.h"

namespace recollect::kernels {
namespace {

using sample_cases::Settings;

auto OnHost(HostOrder order) {
  return [order](const std::vector<float>& logits, const Settings& settings,
                 const NeverChosen& never, size_t shift) {
    return sample_cases::RunOnHost(logits, settings, never, shift, order);
  };
}

TEST(SampleBlockTest, AgreesWithTheHost) {
  const int64_t vocabs[] = {1, 2, 3, 5, 16, 17, 300, 4098};
  sample_cases::CheckAgreesWithTheHost(OnHost(HostOrder::kPhases), vocabs);
}

// A missing barrier, and threads of a phase that depend on each other, would show. So many logits
// that a thread loads several times.
TEST(SampleBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  const Settings settings = {{}, {.temperature = 0.9f, .top_k = 50, .top_p = 0.9, .draw = 0.6}};
  const std::vector<float> logits = Normals(2 * 17001, 1);
  const sample_cases::Choices expected = sample_cases::Expected(logits, settings, {});
  for (HostOrder order : kHostOrders) {
    EXPECT_EQ(OnHost(order)(logits, settings, {}, 0), expected) << static_cast<int>(order);
  }
}

// Equal logits, so that the index alone decides, digit by digit.
TEST(SampleBlockTest, ManyEquals) {
  const Settings settings = {{.temperature = 1, .draw = 0.3},
                             {.temperature = 1, .top_k = 65537, .top_p = 0.999, .draw = 0.999}};
  const std::vector<float> logits(2 * 70001, 1.0f);
  EXPECT_EQ(OnHost(HostOrder::kPhases)(logits, settings, {}, 0),
            sample_cases::Expected(logits, settings, {}));
}

TEST(SampleBlockTest, TiesAndLogitsThatAreNoNumbers) {
  sample_cases::CheckOrder(OnHost(HostOrder::kPhases));
}

TEST(SampleBlockTest, NoLogitsNoChoice) { sample_cases::CheckNoLogits(OnHost(HostOrder::kPhases)); }

}  // namespace
}  // namespace recollect::kernels
