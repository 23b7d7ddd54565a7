#include "kernels/linear_attention/linear_attention_cuda.h"

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/linear_attention/linear_attention_device_checks.h"

namespace recollect::kernels {
namespace {

class LinearAttentionCudaTest : public CudaTest {};

auto OnDevice(size_t shift) {
  return [shift](const LinearAttentionPlan& plan, const linear_cases::Call& call) {
    return linear_cases::RunIn<DeviceArray>(plan, call, shift, [&](const LinearAttentionOp& op) {
      EXPECT_EQ(Launch(nullptr, op), absl::OkStatus());
    });
  };
}

TEST_F(LinearAttentionCudaTest, MatchesReference) {
  linear_cases::CheckMatchesReference(OnDevice(0));
  linear_cases::CheckMatchesReference(OnDevice(1));
}

TEST_F(LinearAttentionCudaTest, SameBitsInAnyCutAndCompany) {
  linear_cases::CheckSameBitsInAnyCutAndCompany(OnDevice(0));
}

TEST_F(LinearAttentionCudaTest, NanStaysInItsColumn) {
  linear_cases::CheckNanStaysInItsColumn(OnDevice(0));
}

TEST_F(LinearAttentionCudaTest, HasTheBitsOfTheHostRun) {
  const auto host = [](const LinearAttentionPlan& plan, const linear_cases::Call& call) {
    return linear_cases::RunOnHost(plan, call, HostOrder::kPhases);
  };
  for (const LinearAttentionShape& shape : {LinearAttentionShape{8, 2, 128}, {6, 2, 34}}) {
    linear_cases::Call call{.shape = shape};
    for (const bool initial : {false, true}) {
      if (initial) call.initial = linear_cases::RandomInitial(call, 9);
      call.sequences.clear();
      for (int64_t rows : {300, 1, 37}) {
        call.sequences.push_back(linear_cases::RandomSequence(call, rows, rows * 3 / 4 + 1, 1));
      }
      const auto expected = linear_cases::Run(host, call);
      for (size_t shift : {0, 1}) {
        SCOPED_TRACE(absl::StrCat("head_dim ", shape.head_dim, ", shift ", shift));
        const auto results = linear_cases::Run(OnDevice(shift), call);
        for (size_t s = 0; s < expected.size(); ++s) {
          linear_cases::ExpectSameBits(results[s], expected[s]);
        }
      }
    }
  }
}

TEST_F(LinearAttentionCudaTest, RefusesMoreSegmentsThanPlanned) {
  const auto plan = PlanLinearAttention({.segments = 2, .shape = {4, 2, 8}});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(Launch(nullptr, LinearAttentionOp{.plan = *plan, .segment_count = 3}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Launch(nullptr, LinearAttentionOp{.plan = *plan}), absl::OkStatus());
}

}  // namespace
}  // namespace recollect::kernels
