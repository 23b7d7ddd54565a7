#include "base/numeric/mxint8.h"

#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recollect {
namespace {

using ::testing::Each;

// Numbers of blocks that differ in size by up to 2^80, some zero.
std::vector<Bf16> SomeNumbers(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> numbers(count);
  float scale = 1;
  for (size_t i = 0; i < count; ++i) {
    if (i % kMxInt8Block == 0) scale = std::ldexp(1.0f, static_cast<int>(random() % 81) - 40);
    if (random() % 5 != 0) numbers[i] = Bf16::FromFloat(normal(random) * scale);
  }
  return numbers;
}

std::vector<Bf16> Rounded(std::vector<Bf16> numbers) {
  const bool rounded = RoundToMxInt8(numbers);
  EXPECT_EQ(rounded, IsMxInt8(numbers));
  return numbers;
}

std::vector<uint8_t> Encoded(const std::vector<Bf16>& numbers) {
  std::vector<uint8_t> bytes(MxInt8Bytes(numbers.size()));
  EncodeMxInt8(numbers, bytes);
  return bytes;
}

float PowerOfTwo(float largest) { return std::ldexp(1.0f, std::ilogb(largest)); }

TEST(MxInt8Test, TheErrorIsAtMostHalfACode) {
  const std::vector<Bf16> numbers = SomeNumbers(6400, 1), rounded = Rounded(numbers);
  EXPECT_FALSE(IsMxInt8(numbers));
  for (size_t block = 0; block < numbers.size(); block += kMxInt8Block) {
    float largest = 0;
    for (size_t i = block; i < block + kMxInt8Block; ++i) {
      largest = std::max(largest, std::abs(numbers[i].ToFloat()));
    }
    const float code = PowerOfTwo(largest) / 64;
    for (size_t i = block; i < block + kMxInt8Block; ++i) {
      const float x = numbers[i].ToFloat();
      // 127.5 codes, the largest that bf16 has under this power of two, becomes 127.
      EXPECT_LE(std::abs(rounded[i].ToFloat() - x), code / 2) << i << ": " << x;
      EXPECT_EQ(std::fmod(rounded[i].ToFloat(), code), 0) << i << ": " << x;
    }
  }
}

TEST(MxInt8Test, WhatWasRoundedStays) {
  for (const size_t count : {0, 1, 31, 32, 33, 4096 + 7}) {
    const std::vector<Bf16> rounded = Rounded(SomeNumbers(count, 2));
    EXPECT_TRUE(IsMxInt8(rounded));
    EXPECT_EQ(Rounded(rounded), rounded);
    std::vector<Bf16> decoded(count);
    EXPECT_TRUE(DecodeMxInt8(Encoded(rounded), decoded));
    EXPECT_EQ(decoded, rounded);
  }
}

// Every bf16 number, alone in its block.
TEST(MxInt8Test, EveryNumber) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const std::vector<Bf16> number = {{static_cast<uint16_t>(bits)}}, rounded = Rounded(number);
    const float x = number[0].ToFloat();
    ASSERT_EQ(IsMxInt8(number), rounded == number && std::isfinite(x)) << x;
    if (!std::isfinite(x)) {
      ASSERT_EQ(rounded, number);
      continue;
    }
    const float code = std::abs(x) < std::ldexp(1.0f, -120) ? std::ldexp(1.0f, -126)
                                                            : PowerOfTwo(std::abs(x)) / 64;
    ASSERT_LE(std::abs(rounded[0].ToFloat() - x), code / 2) << x;
    std::vector<Bf16> decoded(1);
    ASSERT_TRUE(DecodeMxInt8(Encoded(rounded), decoded)) << x;
    ASSERT_EQ(decoded, rounded) << x;
  }
}

TEST(MxInt8Test, WhatIsNotFiniteKeepsItsBlock) {
  std::vector<Bf16> numbers = SomeNumbers(96, 3);
  numbers[40] = Bf16::FromFloat(INFINITY);
  numbers[41] = Bf16::FromFloat(NAN);
  const std::vector<Bf16> rounded = Rounded(numbers);
  EXPECT_TRUE(std::equal(&numbers[32], &numbers[64], &rounded[32]));
  EXPECT_FALSE(IsMxInt8(rounded));
  EXPECT_TRUE(IsMxInt8({rounded.data(), 32}));
  EXPECT_TRUE(IsMxInt8({&rounded[64], 32}));
}

TEST(MxInt8Test, ZeroHasOneSign) {
  const std::vector<Bf16> minus(32, Bf16{0x8000});
  EXPECT_FALSE(IsMxInt8(minus));
  EXPECT_THAT(Rounded(minus), Each(Bf16()));
}

// One block of one number: its exponent, its code.
TEST(MxInt8Test, BytesThatAreNotWrittenAreRefused) {
  std::vector<Bf16> number(1);
  const auto decodes = [&](uint8_t exponent, uint8_t code) {
    return DecodeMxInt8(std::vector<uint8_t>{exponent, code}, number);
  };
  EXPECT_TRUE(decodes(127, 64));
  EXPECT_EQ(number[0], Bf16::FromFloat(1));
  EXPECT_TRUE(decodes(127, 0x81));  // -127
  EXPECT_EQ(number[0], Bf16::FromFloat(-127.0f / 64));
  EXPECT_TRUE(decodes(254, 127));
  EXPECT_TRUE(decodes(7, 0));
  EXPECT_FALSE(decodes(127, 0x80)) << "-128";
  EXPECT_FALSE(decodes(127, 63)) << "the exponent of a smaller number is 126";
  EXPECT_FALSE(decodes(127, 0)) << "that of zero is 7";
  EXPECT_FALSE(decodes(6, 0));
  EXPECT_FALSE(decodes(255, 64));
}

}  // namespace
}  // namespace recollect
