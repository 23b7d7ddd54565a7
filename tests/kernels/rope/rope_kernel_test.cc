#include "kernels/rope/rope_kernel.h"

#include <cmath>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/rope/rope_cases.h"

namespace recollect::kernels {
namespace {

TEST(RopeBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  HostDevice phases;
  for (const RopeAngles& angles : rope_cases::Angles()) {
    const auto call = rope_cases::CallOf(angles, 12, 34, rope_cases::Positions());
    const std::vector<float> expected = rope_cases::RunOnDevice(phases, call, 0);
    for (HostOrder order : kHostOrders) {
      HostDevice host(order);
      EXPECT_TRUE(SameBits(rope_cases::RunOnDevice(host, call, 0), expected))
          << static_cast<int>(order);
    }
  }
}

TEST(RopeFactorsTest, AreThoseOfThePositionsAngles) {
  const std::vector<int64_t> positions = rope_cases::Positions();
  for (RopeAngles angles : rope_cases::Angles()) {
    const int half = 17;
    if (!angles.divisors.empty()) angles.divisors = angles.divisors.first(half);
    OpContext ctx;
    Guarded cosines(static_cast<int64_t>(positions.size()) * half);
    Guarded sines(static_cast<int64_t>(positions.size()) * half);
    RopeFactors(ctx, angles, positions, 2 * half, cosines.data(), sines.data());
    for (size_t row = 0; row < positions.size(); ++row) {
      for (int j = 0; j < half; ++j) {
        const double angle = static_cast<double>(positions[row] / angles.step) *
                             std::pow(angles.base, -2.0 * j / (2 * half)) / angles.Divisor(j);
        EXPECT_CLOSE(cosines[row * half + j], std::cos(angle), 1, 1);
        EXPECT_CLOSE(sines[row * half + j], std::sin(angle), 1, 1);
      }
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
