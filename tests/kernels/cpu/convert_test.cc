#include "kernels/cpu/convert.h"

#include <bit>
#include <limits>

#include "kernels/elementwise/elementwise.h"
#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels {
namespace {

std::vector<float> AwkwardNumbers() {
  std::vector<float> numbers = Normals(1000, 1);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float number : {0.0f, -0.0f, kInf, -kInf, std::nanf(""), 1e-40f, -1e-45f, 3.4e38f,
                       1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, std::bit_cast<float>(0x7f800001u)}) {
    numbers.push_back(number);
  }
  return numbers;
}

TEST(ConvertTest, EveryInstructionSetRoundsAsTheScalarType) {
  const std::vector<float> numbers = AwkwardNumbers();
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(IsaName(isa));
    OpContext ctx(isa);
    for (int64_t count : {0, 1, 7, 8, 9, 15, 16, 17, static_cast<int>(numbers.size())}) {
      const std::vector<float> x(numbers.end() - count, numbers.end());
      std::vector<float> expected;
      for (float v : x) expected.push_back(Bf16::FromFloat(v).ToFloat());

      Guarded rounded(x);
      RoundToBf16(ctx, rounded.data(), count);
      EXPECT_TRUE(SameBits(rounded.values(), expected));

      std::vector<Bf16> narrow(count + 1, Bf16{0x1234});
      ConvertToBf16(ctx, x.data(), count, narrow.data());
      EXPECT_EQ(narrow[count].bits, 0x1234);
      Guarded wide(count);
      ConvertToFloat(ctx, narrow.data(), count, wide.data());
      EXPECT_TRUE(SameBits(wide.values(), expected));
    }
  }
}

TEST(ConvertTest, HalfwayGoesToEven) {
  EXPECT_EQ(Bf16::FromFloat(1.0f + 0x1p-8f).ToFloat(), 1.0f);
  EXPECT_EQ(Bf16::FromFloat(1.0f + 3 * 0x1p-8f).ToFloat(), 1.0f + 0x1p-6f);
  EXPECT_TRUE(std::isnan(Bf16::FromFloat(std::bit_cast<float>(0x7f800001u)).ToFloat()));
}

}  // namespace
}  // namespace recollect::kernels
