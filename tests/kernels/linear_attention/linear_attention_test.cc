#include "kernels/linear_attention/linear_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/op_test.h"
#include "tests/kernels/linear_attention/linear_attention_cases.h"

namespace recollect::kernels {
namespace {

using linear_cases::Call;
using linear_cases::Result;
using linear_cases::Sequence;

class LinearAttentionTest : public OpTest<Call> {};
class LinearAttentionDeviceTest : public LinearAttentionTest {};

TEST_P(LinearAttentionTest, MatchesReference) {
  struct Rows {
    int64_t rows, entering;
  };
  for (const LinearAttentionShape& shape : linear_cases::kShapes) {
    for (const Rows& rows :
         {Rows{0, 0}, {1, 0}, {1, 1}, {9, 9}, {17, 3}, {8, 7}, {30, 0}, {30, 24}, {64, 64}}) {
      for (const bool initial : {false, true}) {
        SCOPED_TRACE(absl::StrCat(shape.heads, "/", shape.kv_heads, " heads of ", shape.head_dim,
                                  ", ", rows.rows, " rows, ", rows.entering, " enter",
                                  initial ? ", S_0" : ""));
        Call call{.shape = shape};
        if (initial) call.initial = linear_cases::RandomInitial(call, 9);
        call.sequences = {linear_cases::RandomSequence(call, rows.rows, rows.entering, 1)};
        const Result result = RunInAllWays(call)[0];
        linear_cases::ExpectMatchesReference(call, call.sequences[0], result);
        if (rows.entering == 0) {
          EXPECT_TRUE(SameBits(result.state, call.sequences[0].state)) << "nothing entered";
        }
      }
    }
  }
}

// One sequence: at once, and in every cut into calls down to a row at a time, in any batch.
TEST_P(LinearAttentionTest, SameBitsInAnyCutAndBatch) {
  for (const LinearAttentionShape& shape : linear_cases::kShapes) {
    const int64_t rows = 61;
    Call alone{.shape = shape};
    alone.initial = linear_cases::RandomInitial(alone, 9);
    alone.sequences = {linear_cases::RandomSequence(alone, rows, 50, 1)};
    const Sequence& whole = alone.sequences[0];
    const Result expected = RunInAllWays(alone)[0];
    Call others = alone;
    others.sequences.clear();
    for (int64_t length : {1, 0, 20, 9}) {
      others.sequences.push_back(linear_cases::RandomSequence(others, length, length / 2,
                                                              50 + static_cast<uint32_t>(length)));
    }
    others.spare = 3;
    const std::vector<Result> expected_others = Run(others);
    for (const int64_t cut : {1, 3, 7, 8, 13, 60}) {
      SCOPED_TRACE(absl::StrCat("head_dim ", shape.head_dim, ", cuts of ", cut));
      Result joined{.out = {}, .state = whole.state};
      for (int64_t begin = 0; begin < rows; begin += cut) {
        Call call = others;
        call.spare = begin % 2;
        const size_t place = begin / cut % (others.sequences.size() + 1);
        call.sequences.insert(
            call.sequences.begin() + place,
            linear_cases::Slice(alone, whole, begin, std::min(begin + cut, rows), joined));
        std::vector<Result> results = Run(call);
        joined.out.insert(joined.out.end(), results[place].out.begin(), results[place].out.end());
        joined.state = results[place].state;
        results.erase(results.begin() + place);
        EXPECT_TRUE(SameBits(results, expected_others));
      }
      EXPECT_TRUE(SameBits(joined, expected));
    }
  }
}

// A value that is no number stays in its column of its key-value head, from its position on.
TEST_P(LinearAttentionTest, NanStaysInItsColumn) {
  const LinearAttentionShape shape = {4, 2, 10};
  const int64_t rows = 12;
  Call call{.shape = shape};
  call.sequences = {linear_cases::RandomSequence(call, rows, rows, 1)};
  const Result plain = Run(call)[0];
  call.sequences[0].values[5 * call.value_width() + 1 * shape.head_dim + 9] = std::nanf("");
  const Result result = Run(call)[0];
  for (int64_t i = 0; i < rows * call.out_width(); ++i) {
    const int64_t row = i / call.out_width(), head = i % call.out_width() / shape.head_dim;
    const bool is_nan = row >= 5 && head >= 2 && i % shape.head_dim == 9;
    EXPECT_EQ(std::isnan(result.out[i]), is_nan) << i;
    if (!is_nan) {
      EXPECT_EQ(std::bit_cast<uint32_t>(result.out[i]), std::bit_cast<uint32_t>(plain.out[i])) << i;
    }
  }
}

#ifdef RECOLLECT_TEST_ON_CUDA
TEST_P(LinearAttentionDeviceTest, HasTheBitsOfTheHost) {
  HostDevice host;
  for (const LinearAttentionShape& shape : {LinearAttentionShape{8, 2, 128}, {6, 2, 34}}) {
    Call call{.shape = shape};
    for (const bool initial : {false, true}) {
      if (initial) call.initial = linear_cases::RandomInitial(call, 9);
      call.sequences.clear();
      for (int64_t rows : {300, 1, 37}) {
        call.sequences.push_back(linear_cases::RandomSequence(call, rows, rows * 3 / 4 + 1, 1));
      }
      EXPECT_TRUE(SameBits(RunInAllWays(call), RunOnDevice(host, call, 0))) << shape.head_dim;
    }
  }
}
#endif

TEST_P(LinearAttentionDeviceTest, RefusesMoreSegmentsThanPlanned) {
  device_cases::Arrays arrays(*device_);
  const auto plan = PlanLinearAttention({.segments = 2, .shape = {4, 2, 8}});
  ASSERT_TRUE(plan.ok());
  const std::vector<LinearAttentionSegment> segments(3);
  EXPECT_EQ(device_->Run(LinearAttentionOp{*plan, arrays.Place(segments), 3}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Run(LinearAttentionOp{*plan}), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Runners, LinearAttentionTest, ::testing::ValuesIn(Runners()),
                         NameOfRunner);
INSTANTIATE_TEST_SUITE_P(Runners, LinearAttentionDeviceTest, ::testing::Values(Runner()),
                         NameOfRunner);

}  // namespace
}  // namespace recollect::kernels
