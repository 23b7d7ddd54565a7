#include "kernels/argmax_cuda.h"

#include "tests/kernels/argmax_device_checks.h"
#include "tests/kernels/cuda_test_util.h"

namespace recollect::kernels {
namespace {

class ArgmaxCudaTest : public CudaTest {};

argmax_cases::Choices OnDevice(const std::vector<float>& logits, int64_t rows,
                               const NeverChosen& never, size_t shift) {
  const auto vocab =
      rows == 0 ? 0 : static_cast<int32_t>(static_cast<int64_t>(logits.size()) / rows);
  const DeviceArray<float> memory(logits, shift);
  const DeviceArray<int32_t> choices(argmax_cases::Choices(rows, -2));
  EXPECT_EQ(ArgmaxCuda(nullptr, memory.data(), rows, vocab, never, choices.data()),
            absl::OkStatus());
  return choices.Download();
}

TEST_F(ArgmaxCudaTest, AgreesWithTheHost) {
  const int64_t vocabs[] = {1, 2, 3, 4, 5, 100, 1023, 4096, 4098, 17000, 65537, 151936};
  argmax_cases::CheckAgreesWithTheHost(OnDevice, vocabs);
}

TEST_F(ArgmaxCudaTest, TiesAndLogitsThatAreNoNumbers) { argmax_cases::CheckOrder(OnDevice); }

TEST_F(ArgmaxCudaTest, NoLogitsNoChoice) {
  EXPECT_EQ(OnDevice({}, 3, {}, 0), (argmax_cases::Choices{-1, -1, -1}));
}

}  // namespace
}  // namespace recollect::kernels
