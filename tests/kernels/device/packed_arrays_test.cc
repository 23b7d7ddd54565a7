#include "kernels/device/packed_arrays.h"

#include <gtest/gtest.h>

namespace recollect::kernels {
namespace {

// Arrays of several lengths, none among them, against a layout made byte by byte; in every cut of a
// size, as uploads make them.
TEST(PackedArraysTest, EveryCutCopiesWhatLiesThere) {
  std::vector<std::vector<std::byte>> memory;
  for (const size_t bytes : {300, 0, 256, 1, 0, 513}) {
    auto& array = memory.emplace_back();
    for (size_t i = 0; i < bytes; ++i) {
      array.push_back(static_cast<std::byte>(i * 7 + 31 * memory.size()));
    }
  }
  const std::vector<std::span<const std::byte>> arrays(memory.begin(), memory.end());
  const PackedArrays packed(arrays);
  constexpr auto kBetween = std::byte{0xee};
  std::vector<std::byte> whole;
  for (size_t i = 0; i < arrays.size(); ++i) {
    whole.resize((whole.size() + 255) / 256 * 256, kBetween);
    EXPECT_EQ(packed.offset(i), static_cast<int64_t>(whole.size()));
    whole.insert(whole.end(), arrays[i].begin(), arrays[i].end());
  }
  ASSERT_EQ(packed.bytes(), static_cast<int64_t>(whole.size()));
  for (const int64_t cut : {1, 3, 255, 256, 257, 512, 5000}) {
    std::vector<std::byte> copied(whole.size(), kBetween);
    for (int64_t begin = 0; begin < packed.bytes(); begin += cut) {
      packed.Copy(begin, std::min(begin + cut, packed.bytes()), copied.data() + begin);
    }
    EXPECT_EQ(copied, whole) << cut;
  }
}

TEST(PackedArraysTest, NoArraysHaveNoBytes) { EXPECT_EQ(PackedArrays({}).bytes(), 0); }

}  // namespace
}  // namespace recollect::kernels
