#include "kernels/elementwise/elementwise_cuda.h"

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/elementwise/elementwise_device_checks.h"

namespace recollect::kernels {
namespace {

using elementwise_cases::Call;
using elementwise_cases::Op;

class ElementwiseCudaTest : public CudaTest {};

struct DeviceRunner {
  template <typename T>
  using Array = DeviceArray<T>;

  template <typename Out>
  void Launch(const Call& call, float* x, const float* other, Out* y) const {
    const auto run = [](const auto& op) { return kernels::Launch(nullptr, op); };
    EXPECT_EQ(elementwise_cases::WithOperation(call, x, other, y, run), absl::OkStatus());
  }
};

TEST_F(ElementwiseCudaTest, MatchesReference) {
  elementwise_cases::CheckMatchesReference(DeviceRunner());
}

TEST_F(ElementwiseCudaTest, MatchesReferenceForNumbersOfAnySize) {
  elementwise_cases::CheckSizesOfNumbers(DeviceRunner());
}

TEST_F(ElementwiseCudaTest, NanAndInfinityStayInPlace) {
  elementwise_cases::CheckNanAndInfinityStayInPlace(DeviceRunner());
}

TEST_F(ElementwiseCudaTest, RoundingIsThatOfTheBase) {
  elementwise_cases::CheckRoundingIsThatOfTheBase(DeviceRunner());
}

TEST_F(ElementwiseCudaTest, ARowHasTheSameBitsInAnyBatch) {
  elementwise_cases::CheckARowHasTheSameBitsInAnyBatch(DeviceRunner());
}

TEST_F(ElementwiseCudaTest, RowsAtADistance) {
  elementwise_cases::CheckRowsAtADistance(DeviceRunner());
}

TEST_F(ElementwiseCudaTest, EveryHeadHasItsGain) {
  elementwise_cases::CheckEveryHeadHasItsGain(DeviceRunner());
}

TEST_F(ElementwiseCudaTest, HasTheBitsOfTheHostRun) {
  for (Op op : elementwise_cases::kOps) {
    for (int64_t width : {33, 768, 5632}) {
      const Call call = elementwise_cases::CallOf(op, 301, width);
      const std::vector<float> expected =
          elementwise_cases::Run(elementwise_cases::HostRunner(), call);
      for (size_t shift : {0, 1}) {
        EXPECT_TRUE(SameBits(elementwise_cases::Run(DeviceRunner(), call, shift), expected))
            << "op " << static_cast<int>(op) << ", width " << width << ", shift " << shift;
      }
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
