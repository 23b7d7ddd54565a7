// The cases that cuda_bench times on a GPU, small, on the host's device: what they ask for is what
// they check.
#include "bench/kernels/device_cases.h"

#include <gmock/gmock.h>

#include "bench/kernels/family_cases.h"
#include "tests/kernels/device/host_device.h"

namespace recollect::bench {
namespace {

using kernels::FeatureMap;
using kernels::HostDevice;
using ::testing::HasSubstr;

struct Named {
  const char* name;
  absl::StatusOr<DeviceCase> (*make)(kernels::Device&);
};

const Named kCases[] = {
    {"SmallOperations", [](kernels::Device& device) { return SmallOperationsCase(device, 7, 48); }},
    {"RatPlusDecode",
     [](kernels::Device& device) {
       return RatPlusDecodeCase(
           device, {.batch = 3, .heads = 4, .head_dim = 64, .position = 4799, .entries = 300});
     }},
    {"BlockBounds",
     [](kernels::Device& device) {
       return BlockBoundsCase(device, {.blocks = 5, .block = 12, .width = 80});
     }},
    {"BlockMeans",
     [](kernels::Device& device) {
       return BlockBoundsCase(device, {.blocks = 5, .block = 12, .width = 80, .mean = true});
     }},
    {"BlockTopKOfADecodeStep",
     [](kernels::Device& device) {
       return BlockTopKCase(device,
                            {.rows = 3,
                             .heads = 4,
                             .head_dim = 32,
                             .block = 8,
                             .count = 6,
                             .max_position = 20 * 8 + 3},
                            false);
     }},
    {"BlockTopKOfAPrefill",
     [](kernels::Device& device) {
       return BlockTopKCase(device,
                            {.rows = 40,
                             .heads = 2,
                             .head_dim = 32,
                             .block = 8,
                             .count = 6,
                             .max_position = 20 * 8 + 3},
                            true);
     }},
    {"SoftmaxFeatures",
     [](kernels::Device& device) { return FeaturesCase(device, FeatureMap::kSoftmax, 5, 4, 64); }},
    {"ReluFeatures",
     [](kernels::Device& device) { return FeaturesCase(device, FeatureMap::kRelu, 5, 4, 64); }},
    {"LinearAttentionOfADecodeStep",
     [](kernels::Device& device) {
       return LinearAttentionCase(
           device, {.segments = 3, .shape = {.heads = 4, .kv_heads = 2, .head_dim = 32}}, 1);
     }},
    {"LinearAttentionOfAPrefill",
     [](kernels::Device& device) {
       return LinearAttentionCase(
           device, {.segments = 2, .shape = {.heads = 4, .kv_heads = 4, .head_dim = 32}}, 21);
     }},
};

class DeviceCasesTest : public ::testing::TestWithParam<Named> {};

TEST_P(DeviceCasesTest, ItsAnswerPassesItsCheckEachTime) {
  HostDevice device;
  const absl::StatusOr<DeviceCase> made = GetParam().make(device);
  ASSERT_TRUE(made.ok()) << made.status();
  for (int run = 0; run < 2; ++run) {
    if (made->reset) {
      ASSERT_EQ(made->reset(), absl::OkStatus());
    }
    ASSERT_EQ(RunAll(device, made->operations), absl::OkStatus());
    EXPECT_EQ(made->check(), absl::OkStatus());
  }
}

TEST_P(DeviceCasesTest, NoAnswerDoesNotPass) {
  HostDevice device;
  const absl::StatusOr<DeviceCase> made = GetParam().make(device);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(std::string(made->check().message()), HasSubstr("WRONG ANSWER"));
  ASSERT_EQ(RunAll(device, made->operations), absl::OkStatus());
  if (!made->reset) return;
  ASSERT_EQ(made->reset(), absl::OkStatus());  // as before a run by graph
  EXPECT_THAT(std::string(made->check().message()), HasSubstr("WRONG ANSWER"));
}

TEST_P(DeviceCasesTest, TooLittleMemoryIsSaidSo) {
  HostDevice device;
  device.LimitBytes(100);
  EXPECT_EQ(GetParam().make(device).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device.buffers(), 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, DeviceCasesTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ChunkUploadsTest, ChunksAreThereOnceTheyAreAwaited) {
  HostDevice device;
  ChunkUploads uploads(device, 3, 63 * 256);
  EXPECT_EQ(uploads.bytes(), 3 * 63 * 256 * 2);
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(uploads.Upload(), absl::OkStatus());
    EXPECT_THAT(std::string(uploads.Check().message()), HasSubstr("WRONG ANSWER, chunk 0"));
    ASSERT_EQ(uploads.Await(), absl::OkStatus());
    EXPECT_EQ(uploads.Check(), absl::OkStatus());
    uploads.Drop();
    EXPECT_EQ(device.buffers(), 0);
  }
}

}  // namespace
}  // namespace recollect::bench
