#include "kernels/key_dots/key_dots.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels {
namespace {

TEST(KeyDotsTest, EveryCodeAddsInTheSameOrder) {
  constexpr int64_t kWidth = 37;
  const std::vector<float> q = Normals(kWidth, 1);
  for (const int64_t rows : {1, 7, 8, 9, 15, 16, 17, 32, 63, 64, 65, 200}) {
    const std::vector<Bf16> keys = NormalBf16(kWidth * rows, 2);
    std::vector<float> expected;
    for (int64_t r = 0; r < rows; ++r) {
      float& sum = expected.emplace_back(0.0f);
      for (int64_t i = 0; i < kWidth; ++i) {
        sum += q[static_cast<size_t>(i)] * keys[static_cast<size_t>(i * rows + r)].ToFloat();
      }
    }
    for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > DetectIsa()) continue;
      OpContext ctx(isa);
      Guarded dots(rows);
      KeyDots(ctx, q.data(), keys.data(), rows, kWidth, dots.data());
      EXPECT_EQ(dots.values(), expected) << IsaName(isa) << ", " << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
