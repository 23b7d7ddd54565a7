#include "kernels/quant/quant_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels {
namespace {

struct GoldenBlocks {
  int64_t count = 0;
  std::string bytes;
  std::vector<float> numbers;
};

// quant_golden.bin, as make_quant_golden.py says.
std::vector<GoldenBlocks> ReadGolden() {
  std::ifstream file(RECOLLECT_SOURCE_DIR "/tests/kernels/quant/quant_golden.bin",
                     std::ios::binary);
  std::vector<GoldenBlocks> golden;
  for (const QuantFormat format : kQuantFormats) {
    uint32_t count = 0;
    file.read(reinterpret_cast<char*>(&count), sizeof(count));
    GoldenBlocks& blocks = golden.emplace_back();
    blocks.count = count;
    blocks.bytes.resize(count * TraitsOf(format).block_bytes);
    blocks.numbers.resize(count * TraitsOf(format).block);
    file.read(blocks.bytes.data(), std::ssize(blocks.bytes));
    file.read(reinterpret_cast<char*>(blocks.numbers.data()),
              std::ssize(blocks.numbers) * static_cast<int64_t>(sizeof(float)));
  }
  EXPECT_TRUE(file.good());
  EXPECT_EQ(file.peek(), EOF);
  return golden;
}

// Equal bits; of two NaN neither sign nor payload counts.
bool SameNumber(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof(a)) == 0;
}

TEST(QuantBlocksTest, GivesTheBitsOfTheGolden) {
  const std::vector<GoldenBlocks> golden = ReadGolden();
  for (size_t f = 0; f < golden.size(); ++f) {
    const GoldenBlocks& blocks = golden[f];
    const QuantTraits traits = TraitsOf(kQuantFormats[f]);
    SCOPED_TRACE(traits.name);
    ASSERT_GT(blocks.count, 1);
    // An odd address: blocks need no alignment.
    const std::string shifted = "." + blocks.bytes;
    Guarded numbers(std::ssize(blocks.numbers));
    Dequantize(kQuantFormats[f], reinterpret_cast<const std::byte*>(shifted.data()) + 1,
               blocks.count, numbers.data());
    for (int64_t i = 0; i < std::ssize(blocks.numbers); ++i) {
      ASSERT_TRUE(SameNumber(numbers[i], blocks.numbers[i]))
          << "number " << i % traits.block << " of block " << i / traits.block << ": " << numbers[i]
          << ", expected " << blocks.numbers[i];
    }
  }
}

TEST(QuantBlocksTest, NoBlocksWriteNothing) {
  for (const QuantFormat format : kQuantFormats) {
    float number = 7;
    Dequantize(format, nullptr, 0, &number);
    EXPECT_EQ(number, 7);
  }
}

// One pair of factors at a time, every value: no bit of one reaches another.
TEST(QuantBlocksTest, FactorsUnpackOneByOne) {
  for (int sub = 0; sub < 8; ++sub) {
    for (int value = 0; value < 64; ++value) {
      for (const bool minimum : {false, true}) {
        uint8_t packed[12] = {};
        const int byte = (minimum ? 4 : 0) + sub % 4;
        if (sub < 4) {
          packed[byte] = static_cast<uint8_t>(value);
        } else {
          packed[4 + sub] = static_cast<uint8_t>((value & 0xf) << (minimum ? 4 : 0));
          packed[byte] = static_cast<uint8_t>(value >> 4 << 6);
        }
        const QuantFactors factors = UnpackFactors(packed);
        for (int other = 0; other < 8; ++other) {
          EXPECT_EQ(factors.scale[other], other == sub && !minimum ? value : 0);
          EXPECT_EQ(factors.minimum[other], other == sub && minimum ? value : 0);
        }
      }
    }
  }
}

TEST(QuantBlocksTest, FormatsHaveTheirPublishedNames) {
  for (const QuantFormat format : kQuantFormats) {
    EXPECT_EQ(QuantFormatNamed(TraitsOf(format).name), format);
  }
  EXPECT_EQ(QuantFormatNamed("Q4_K"), QuantFormat::kQ4_K);
  EXPECT_EQ(QuantFormatNamed("F32"), std::nullopt);
  EXPECT_EQ(QuantFormatNamed(""), std::nullopt);
}

}  // namespace
}  // namespace recollect::kernels
