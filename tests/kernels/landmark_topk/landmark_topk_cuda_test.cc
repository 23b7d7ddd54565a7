#include "kernels/landmark_topk/landmark_topk_cuda.h"

#include <memory>

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/landmark_topk/landmark_topk_device_checks.h"

namespace recollect::kernels {
namespace {

class LandmarkTopKCudaTest : public CudaTest {};

// Copies everything to the device, keys one element past an aligned address when `shift` is 1, and
// runs the kernels there.
auto OnDevice(size_t shift) {
  return [shift](const LandmarkTopKPlan& plan, const std::vector<float>& queries,
                 const std::vector<KeySegment>& segments) {
    std::vector<std::unique_ptr<DeviceArray<Bf16>>> memory;
    std::vector<KeySegment> on_device;
    for (const KeySegment& segment : segments) {
      const std::vector<Bf16> keys(segment.keys, segment.keys + segment.count * plan.sizes.width);
      memory.push_back(std::make_unique<DeviceArray<Bf16>>(keys, shift));
      on_device.push_back({memory.back()->data(), segment.count});
    }
    const int64_t places = plan.sizes.queries * plan.sizes.n;
    const DeviceArray<SegmentStart> table(SegmentTable(on_device));
    const DeviceArray<float> device_queries(queries);
    const DeviceArray<uint64_t> workspace(
        std::vector<uint64_t>(plan.workspace_bytes / sizeof(uint64_t), ~uint64_t{0}));
    const DeviceArray<int64_t> candidates(std::vector<int64_t>(places, -2));
    const DeviceArray<float> scores(Nans(places));
    EXPECT_EQ(Launch(nullptr, LandmarkTopKOp{plan, device_queries.data(), table.data(),
                                             workspace.data(), candidates.data(), scores.data()}),
              absl::OkStatus());
    return landmark_cases::Outputs{candidates.Download(), scores.Download()};
  };
}

TEST_F(LandmarkTopKCudaTest, ScoresMatchReference) {
  landmark_cases::CheckScoresMatchReference(OnDevice(0));
  landmark_cases::CheckScoresMatchReference(OnDevice(1));
}

TEST_F(LandmarkTopKCudaTest, AgreesWithSortingAllScores) {
  landmark_cases::CheckAgreesWithSortingAllScores(OnDevice(0), 100003);
}

TEST_F(LandmarkTopKCudaTest, TiesAndScoresThatAreNoNumbers) {
  landmark_cases::CheckOrder(OnDevice(0));
}

TEST_F(LandmarkTopKCudaTest, HasTheBitsOfTheHostRun) {
  const auto host = [](const LandmarkTopKPlan& plan, const std::vector<float>& queries,
                       const std::vector<KeySegment>& segments) {
    return landmark_cases::RunOnHost(plan, queries, segments, HostOrder::kPhases);
  };
  for (int width : {33, 128}) {
    const int64_t count = 9001;
    const std::vector<float> queries = Normals(5 * width, 1);
    const std::vector<Bf16> keys = NormalBf16(count * width, 2);
    const auto expected = landmark_cases::Run(host, width, queries, {{keys.data(), count}}, 8, 132);
    for (size_t shift : {0, 1}) {
      const auto outputs = landmark_cases::Run(OnDevice(shift), width, queries,
                                               {{keys.data(), count}}, 8, Multiprocessors());
      EXPECT_EQ(outputs.candidates, expected.candidates) << width << ", shift " << shift;
      EXPECT_TRUE(SameBits(outputs.scores, expected.scores)) << width << ", shift " << shift;
    }
  }
}

// Millions of keys, whose best are known: all are zero but some.
TEST_F(LandmarkTopKCudaTest, FindsAFewAmongMillions) {
  const int width = 16;
  const int64_t count = 4000037;
  std::vector<Bf16> keys(count * width);
  const std::vector<int64_t> places = {3999999, 0, 2000000, 1023, 1024, 4000036};
  for (size_t i = 0; i < places.size(); ++i) {
    keys[places[i] * width + 3] = Bf16::FromFloat(static_cast<float>(8 - i));
  }
  std::vector<float> query(width);
  query[3] = 1;
  const auto outputs =
      landmark_cases::Run(OnDevice(0), width, query, {{keys.data(), count}}, 8, Multiprocessors());
  std::vector<int64_t> expected = places;
  expected.insert(expected.end(), {1, 2});
  EXPECT_EQ(outputs.candidates, expected);
}

}  // namespace
}  // namespace recollect::kernels
