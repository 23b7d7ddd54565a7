#include "kernels/sample/sample_cuda.h"

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/sample/sample_device_checks.h"

namespace recollect::kernels {
namespace {

class SampleCudaTest : public CudaTest {};

sample_cases::Choices OnDevice(const std::vector<float>& logits,
                               const sample_cases::Settings& settings, const NeverChosen& never,
                               size_t shift) {
  const DeviceArray<float> memory(logits, shift);
  const DeviceArray<SampleSettings> set(settings);
  const DeviceArray<int32_t> choices(sample_cases::Choices(settings.size(), -2));
  EXPECT_EQ(Launch(nullptr, SampleOp{memory.data(), static_cast<int64_t>(settings.size()),
                                     sample_cases::VocabOf(logits, settings.size()), never,
                                     set.data(), choices.data()}),
            absl::OkStatus());
  return choices.Download();
}

TEST_F(SampleCudaTest, AgreesWithTheHost) {
  const int64_t vocabs[] = {1, 2, 3, 5, 16, 17, 300, 4096, 4098, 17000, 151936};
  sample_cases::CheckAgreesWithTheHost(OnDevice, vocabs);
}

TEST_F(SampleCudaTest, TiesAndLogitsThatAreNoNumbers) { sample_cases::CheckOrder(OnDevice); }

TEST_F(SampleCudaTest, NoLogitsNoChoice) { sample_cases::CheckNoLogits(OnDevice); }

}  // namespace
}  // namespace recollect::kernels
