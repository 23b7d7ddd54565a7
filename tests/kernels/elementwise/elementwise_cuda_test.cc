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
    EXPECT_EQ(Status(call, x, other, y), absl::OkStatus());
  }

 private:
  template <typename Out>
  absl::Status Status(const Call& call, float* x, const float* other, Out* y) const {
    const int64_t rows = call.rows, width = call.width;
    switch (call.op) {
      case Op::kRmsNorm: {
        const RowSizes sizes = {rows, width, call.heads, call.stride};
        const float* gain = call.other.empty() ? nullptr : other;
        if (!call.gain_by_head) return RmsNormCuda(nullptr, sizes, x, gain, call.eps, y);
        if constexpr (std::is_same_v<Out, float>) {
          return RmsNormByHeadCuda(nullptr, sizes, x, gain, call.eps, y);
        }
        break;
      }
      case Op::kSwiGlu:
        return SwiGluCuda(nullptr, x, rows, width, y);
      case Op::kGeGlu:
        return GeGluCuda(nullptr, x, rows, width, y);
      case Op::kGelu:
        return GeluCuda(nullptr, x, rows * width, y);
      case Op::kSigmoidGate:
        return SigmoidGateCuda(nullptr, other, call.gate_stride, x, rows, width, y);
      case Op::kAdd:
        if constexpr (std::is_same_v<Out, float>) return AddCuda(nullptr, other, rows * width, y);
        break;
      case Op::kConvert:
        if constexpr (std::is_same_v<Out, Bf16>) {
          return ConvertToBf16Cuda(nullptr, x, call.stride, rows, width, y);
        }
        break;
    }
    return absl::InternalError("no such call");
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
