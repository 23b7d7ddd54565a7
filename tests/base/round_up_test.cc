#include "base/numeric/round_up.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace recollect {
namespace {

TEST(RoundUpTest, IsTheLeastMultipleThatIsNotBelow) {
  EXPECT_EQ(RoundUp(int64_t{0}, 64), 0);
  EXPECT_EQ(RoundUp(int64_t{1}, 64), 64);
  EXPECT_EQ(RoundUp(int64_t{64}, 64), 64);
  EXPECT_EQ(RoundUp(int64_t{65}, 64), 128);
  EXPECT_EQ(RoundUp(int64_t{7}, 3), 9) << "no power of two";
  EXPECT_EQ(RoundUp(int64_t{7}, 1), 7);
  EXPECT_EQ(RoundUp((uint64_t{1} << 63) - 1, 32), uint64_t{1} << 63);
}

}  // namespace
}  // namespace recollect
