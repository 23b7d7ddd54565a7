#include "base/large_vector.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/numeric/bf16.h"

namespace recollect {
namespace {

TEST(LargeVectorTest, HoldsWhatWasWrittenWhateverItsSize) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{5} << 20}) {
    LargeVector<uint32_t> numbers(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<uint32_t>(i * 2654435761u);
    numbers.push_back(7);
    const LargeVector<uint32_t> copy = numbers, moved = std::move(numbers);
    ASSERT_EQ(copy.size(), count + 1);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(copy[i], static_cast<uint32_t>(i * 2654435761u));
    EXPECT_EQ(copy.back(), 7u);
    EXPECT_EQ(copy, moved);
  }
}

TEST(LargeVectorTest, LargeOnesBeginAtAHugePage) {
  const LargeVector<Bf16> keys(LargeAllocator<Bf16>::kLarge / sizeof(Bf16));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(keys.data()) % LargeAllocator<Bf16>::kHugePage, 0u);
}

TEST(LargeVectorTest, TakesTheNumbersOfAVector) {
  const std::vector<int> numbers = {3, 1, 2};
  const LargeVector<int> taken = numbers;
  EXPECT_EQ(std::vector<int>(taken.begin(), taken.end()), numbers);
}

}  // namespace
}  // namespace recollect
