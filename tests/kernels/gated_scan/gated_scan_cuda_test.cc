#include "kernels/gated_scan/gated_scan_cuda.h"

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/gated_scan/gated_scan_device_checks.h"

namespace recollect::kernels {
namespace {

class GatedScanCudaTest : public CudaTest {};

// Arrays in device memory, `shift` floats past an aligned address.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t shift) : shift_(shift) {}
  float* Place(const std::vector<float>& numbers) {
    auto array = std::make_unique<DeviceArray<float>>(numbers, shift_);
    float* const place = array->data();
    arrays_[place] = std::move(array);
    return place;
  }
  std::vector<float> Read(const float* place) const { return arrays_.at(place)->Download(); }

 private:
  const size_t shift_;
  std::map<const float*, std::unique_ptr<DeviceArray<float>>> arrays_;
};

auto OnDevice(size_t shift) {
  return [shift](const GatedScanPlan& plan, const scan_cases::Call& call) {
    DeviceMemory memory(shift);
    return scan_cases::RunIn(memory, plan, call,
                             [&](const std::vector<GatedScanSegment>& segments, const float* bias,
                                 int64_t stride, int64_t y_stride) {
                               const DeviceArray<GatedScanSegment> on_device(segments);
                               GatedScanOp op;
                               op.plan = plan;
                               op.segments = on_device.data();
                               op.segment_count = static_cast<int64_t>(segments.size());
                               op.bias = bias;
                               op.stride = stride;
                               op.y_stride = y_stride;
                               EXPECT_EQ(Launch(nullptr, op), absl::OkStatus());
                               EXPECT_CUDA(cudaDeviceSynchronize());
                             });
  };
}

TEST_F(GatedScanCudaTest, MatchesReferenceBothWays) {
  scan_cases::CheckMatchesReference(OnDevice(0));
  scan_cases::CheckMatchesReference(OnDevice(1));
}

TEST_F(GatedScanCudaTest, SameBitsInAnyCutAndCompany) {
  scan_cases::CheckSameBitsInAnyCutAndCompany(OnDevice(0));
}

TEST_F(GatedScanCudaTest, ChunksBeginAnew) { scan_cases::CheckChunksBeginAnew(OnDevice(0)); }

TEST_F(GatedScanCudaTest, NumbersAtTheEdge) { scan_cases::CheckNumbersAtTheEdge(OnDevice(0)); }

TEST_F(GatedScanCudaTest, HasTheBitsOfTheHostRun) {
  for (int inputs : {1, 2}) {
    scan_cases::Call call{.channels = 300, .bias = Normals(300, 9)};
    for (int64_t rows : {5003, 1, 240}) {
      call.sequences.push_back(scan_cases::RandomSequence(rows, call.channels, inputs, 1));
    }
    for (scan_cases::Strategy strategy : scan_cases::kStrategies) {
      const auto expected = scan_cases::Run(
          [](const GatedScanPlan& plan, const scan_cases::Call& of) {
            return scan_cases::RunOnHost(plan, of, HostOrder::kPhases);
          },
          call, strategy);
      for (size_t shift : {0, 1}) {
        SCOPED_TRACE(absl::StrCat(scan_cases::NameOf(strategy), ", shift ", shift));
        const auto results = scan_cases::Run(OnDevice(shift), call, strategy);
        for (size_t s = 0; s < expected.size(); ++s) {
          scan_cases::ExpectSameBits(results[s], expected[s]);
        }
      }
    }
  }
}

TEST_F(GatedScanCudaTest, RefusesMoreSegmentsThanPlanned) {
  const auto plan = PlanGatedScan({.segments = 2, .max_rows = 1, .channels = 8}, Multiprocessors());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(Launch(nullptr, GatedScanOp{.plan = *plan, .segment_count = 3}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Launch(nullptr, GatedScanOp{.plan = *plan}), absl::OkStatus());
}

}  // namespace
}  // namespace recollect::kernels
