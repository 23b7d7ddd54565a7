#include "kernels/cuda/cuda_device.h"

#include <gmock/gmock.h>

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/device/device_checks.h"
#include "tests/kernels/device/host_device.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<Device> Open() {
  auto device = OpenCudaDevice(0);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

class CudaDeviceTest : public CudaTest {};
class CudaDeviceChecksTest : public CudaTest,
                             public ::testing::WithParamInterface<device_cases::Check> {};

TEST_P(CudaDeviceChecksTest, DoesWhatADeviceDoes) { GetParam().run(*Open()); }

INSTANTIATE_TEST_SUITE_P(Checks, CudaDeviceChecksTest, ::testing::ValuesIn(device_cases::kChecks),
                         device_cases::NameOf);

TEST_F(CudaDeviceTest, BuffersOutliveIt) {
  std::shared_ptr<Device> device = Open();
  const std::vector<float> x = Normals(1000, 1);
  const auto buffer = *device->Allocate(4000);
  ASSERT_EQ(device->Upload(x.data(), 4000, buffer->data()), absl::OkStatus());
  device.reset();
  std::vector<float> kept(1000);
  ASSERT_EQ(cudaMemcpy(kept.data(), buffer->data(), 4000, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(SameBits(kept, x));
}

// Many uploads while the device is busy: more than the staging area holds.
TEST_F(CudaDeviceTest, UploadsInAnyNumberTakeEffectInTheirOrder) {
  const std::shared_ptr<Device> device = Open();
  constexpr int64_t kNumbers = 1 << 20, kTimes = 200;
  device_cases::Arrays arrays(*device);
  float* const sum = arrays.Place(std::vector<float>(kNumbers, 0.0f));
  float* const x = arrays.Place(std::vector<float>(kNumbers, 0.0f));
  for (int64_t n = 0; n < kTimes; ++n) {
    const std::vector<float> first(n % 7 == 0 ? kNumbers : 100, static_cast<float>(n));
    ASSERT_EQ(device->Upload(first.data(), static_cast<int64_t>(first.size() * sizeof(float)), x),
              absl::OkStatus());
    ASSERT_EQ(device->Run(AddOp{x, kNumbers, sum}), absl::OkStatus());
  }
  const std::vector<float> total = arrays.Read(sum, kNumbers);
  float expected_first = 0, expected_last = 0;
  for (int64_t n = 0; n < kTimes; ++n) {
    expected_first += static_cast<float>(n);
    expected_last += static_cast<float>(n - n % 7);
  }
  EXPECT_EQ(total.front(), expected_first);
  EXPECT_EQ(total.back(), expected_last);
}

// So that a model's step on the host's device stands for one on a GPU, but for the products.
TEST_F(CudaDeviceTest, HasTheBitsOfTheHostDevice) {
  const int64_t rows = 33, width = 640;
  const auto run = [&](Device& device) {
    device_cases::Arrays arrays(device);
    const float* const x = arrays.Place(Normals(2 * rows * width, 1));
    float* const gated = arrays.Place(Nans(rows * width));
    float* const y = arrays.Place(Normals(rows * width, 2));
    EXPECT_EQ(device.Run(SwiGluOp{x, rows, width, {gated}}), absl::OkStatus());
    EXPECT_EQ(device.Run(AddOp{gated, rows * width, y}), absl::OkStatus());
    EXPECT_EQ(device.Run(RmsNormOp{.sizes = {rows, width}, .x = y, .eps = 1e-6f, .y = {y}}),
              absl::OkStatus());
    return arrays.Read(y, rows * width);
  };
  HostDevice host;
  EXPECT_TRUE(SameBits(run(*Open()), run(host)));
}

TEST_F(CudaDeviceTest, ThereIsNoSuchDevice) {
  const absl::Status status = OpenCudaDevice(1000).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("CUDA device 1000, this machine has"));
}

}  // namespace
}  // namespace recollect::kernels
