#include "kernels/gated_scan/gated_scan.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/op_test.h"
#include "tests/kernels/gated_scan/gated_scan_cases.h"

namespace recollect::kernels {
namespace {

using scan_cases::Call;
using scan_cases::RandomSequence;
using scan_cases::Result;
using scan_cases::Sequence;
using scan_cases::Slice;

class GatedScanTest : public OpTest<Call> {};
class GatedScanDeviceTest : public GatedScanTest {};

TEST_P(GatedScanTest, MatchesReference) {
  struct Case {
    int64_t rows, channels;
    float z_mean;  // gates near 0, in between, near 1
  };
  for (const Case& c : {Case{0, 8, 0},
                        {1, 1, 0},
                        {1, 256, 0},
                        {2, 7, 0},
                        {3, 16, 0},
                        {5, 130, 0},
                        {7, 100, 0},
                        {8, 17, -8},
                        {15, 33, 8},
                        {63, 15, 0},
                        {64, 64, 0},
                        {65, 33, 0},
                        {119, 33, 0},
                        {120, 16, 0},
                        {121, 100, 8},
                        {200, 16, 0},
                        {240, 5, -8},
                        {487, 48, 0},
                        {600, 9, 12}}) {
    for (int inputs : {1, 2}) {
      for (bool with_bias : {false, true}) {
        for (bool in_place : {false, true}) {
          Call call{.channels = c.channels};
          call.sequences.push_back(RandomSequence(c.rows, c.channels, inputs, 1, c.z_mean));
          if (with_bias) call.bias = Normals(c.channels, 9);
          call.gap = with_bias ? 3 : 0;
          call.in_place = in_place;
          SCOPED_TRACE(absl::StrCat(c.rows, " x ", c.channels, ", ", inputs, " inputs",
                                    with_bias ? " with bias" : "", in_place ? ", in place" : ""));
          scan_cases::ExpectMatchesReference(call, call.sequences[0], RunInAllWays(call)[0]);
        }
      }
    }
  }
}

// One sequence: at once and in every cut into calls down to a row at a time, in any batch, in place
// and not, alone and with a second input.
TEST_P(GatedScanTest, SameBitsInAnyCutAndBatch) {
  for (const auto& [rows, channels] : {std::pair<int64_t, int64_t>{500, 37}, {130, 75}}) {
    Call alone{.channels = channels, .bias = Normals(channels, 9)};
    alone.sequences = {RandomSequence(rows, channels, 2, 1)};
    const Sequence& whole = alone.sequences[0];
    const Result expected = RunInAllWays(alone)[0];

    Call others = alone;
    others.sequences.clear();
    for (int64_t length : {1, 0, 130, 13}) {
      others.sequences.push_back(
          RandomSequence(length, channels, 2, 50 + static_cast<uint32_t>(length)));
    }
    const std::vector<Result> expected_others = Run(others);

    for (int64_t cut : {1, 3, 8, 64, 119, 120, 121, 129, 250, 499}) {
      SCOPED_TRACE(absl::StrCat("cuts of ", cut));
      Result joined{.y = std::vector<std::vector<float>>(2), .state = whole.state};
      for (int64_t begin = 0; begin < rows; begin += cut) {
        Call call = others;
        call.gap = begin / cut % 2 == 0 ? 5 : 0;
        call.in_place = begin / cut % 3 == 1;
        call.spare = 7;
        const size_t place = begin / cut % (others.sequences.size() + 1);
        call.sequences.insert(call.sequences.begin() + place,
                              Slice(whole, channels, begin, std::min(begin + cut, rows), &joined));
        std::vector<Result> results = Run(call);
        for (int i = 0; i < 2; ++i) {
          const std::vector<float>& y = results[place].y[i];
          joined.y[i].insert(joined.y[i].end(), y.begin(), y.end());
        }
        joined.state = results[place].state;
        results.erase(results.begin() + place);
        if (begin > 8 * cut) continue;
        EXPECT_TRUE(SameBits(results, expected_others));
      }
      EXPECT_TRUE(SameBits(joined, expected));
    }

    for (int i = 0; i < 2; ++i) {
      Call one = alone;
      one.sequences[0].x = {whole.x[i]};
      one.sequences[0].state = {whole.state[i]};
      EXPECT_TRUE(SameBits(RunInAllWays(one)[0],
                           Result{.y = {expected.y[i]}, .state = {expected.state[i]}}))
          << "input " << i << " alone";
    }
  }
}

// Chunks begin at absolute positions, and what the state was before one does not matter.
TEST_P(GatedScanTest, ChunksBeginAnewInAnyCut) {
  const int64_t rows = 290, channels = 19;
  for (int64_t chunk : {1, 2, 7, 16, 120, 200, 1000}) {
    for (int64_t first : {int64_t{0}, int64_t{5}, int64_t{32}, int64_t{1} << 40}) {
      Call call{.channels = channels, .chunk = chunk};
      call.sequences = {RandomSequence(rows, channels, 2, 1)};
      Sequence& whole = call.sequences[0];
      whole.first = first;
      if (first % chunk == 0) whole.state[0].assign(channels, std::nanf(""));
      const Result expected = RunInAllWays(call)[0];
      SCOPED_TRACE(absl::StrCat("chunk ", chunk, " from ", first));
      scan_cases::ExpectMatchesReference(call, whole, expected);
      for (int64_t cut : {int64_t{1}, int64_t{10}, int64_t{50}, int64_t{125}, rows}) {
        Result joined{.y = std::vector<std::vector<float>>(2), .state = whole.state};
        for (int64_t begin = 0; begin < rows; begin += cut) {
          Call part = call;
          part.in_place = begin / cut % 2 == 1;
          part.sequences = {Slice(whole, channels, begin, std::min(begin + cut, rows), &joined)};
          const Result result = Run(part)[0];
          for (int i = 0; i < 2; ++i) {
            joined.y[i].insert(joined.y[i].end(), result.y[i].begin(), result.y[i].end());
          }
          joined.state = result.state;
        }
        EXPECT_TRUE(SameBits(joined, expected)) << "cuts of " << cut;
      }
    }
  }
}

// Gates of exactly 0 and 1; NaN stays in its channel and ends with its chunk.
TEST_P(GatedScanTest, NumbersAtTheEdge) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const int64_t rows = 260, channels = 18;
  Call call{.channels = channels, .chunk = 64};
  call.sequences = {RandomSequence(rows, channels, 1, 1)};
  const Result plain = RunInAllWays(call)[0];
  Sequence& sequence = call.sequences[0];
  const auto at = [&](int64_t row, int64_t channel) { return row * channels + channel; };
  sequence.z[at(10, 2)] = kInf;
  sequence.z[at(130, 2)] = -kInf;
  sequence.z[at(131, 2)] = 200;
  sequence.z[at(200, 17)] = -200;
  sequence.x[0][at(70, 5)] = std::nanf("");
  sequence.z[at(129, 16)] = std::nanf("");
  for (int way = 0; way < Call::kWays; ++way) {
    const std::vector<float> y = Run(call)[0].y[0];
    EXPECT_EQ(y[at(10, 2)], y[at(9, 2)]);
    EXPECT_EQ(y[at(130, 2)], sequence.x[0][at(130, 2)]);
    EXPECT_EQ(y[at(131, 2)], y[at(130, 2)]);
    EXPECT_EQ(y[at(200, 17)], sequence.x[0][at(200, 17)]);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        const bool is_nan =
            (channel == 5 && row >= 70 && row < 128) || (channel == 16 && row >= 129 && row < 192);
        EXPECT_EQ(std::isnan(y[at(row, channel)]), is_nan) << row << ", " << channel;
        if (channel == 2 || channel == 17 || is_nan) continue;
        EXPECT_EQ(std::bit_cast<uint32_t>(y[at(row, channel)]),
                  std::bit_cast<uint32_t>(plain.y[0][at(row, channel)]));
      }
    }
  }
}

#ifdef RECOLLECT_TEST_ON_CUDA
TEST_P(GatedScanDeviceTest, HasTheBitsOfTheHost) {
  HostDevice host;
  for (int inputs : {1, 2}) {
    Call call{.channels = 300, .bias = Normals(300, 9)};
    for (int64_t rows : {5003, 1, 240}) {
      call.sequences.push_back(RandomSequence(rows, call.channels, inputs, 1));
    }
    EXPECT_TRUE(SameBits(RunInAllWays(call), RunOnDevice(host, call, 0)));
  }
}
#endif

TEST_P(GatedScanDeviceTest, RefusesMoreSegmentsThanPlanned) {
  device_cases::Arrays arrays(*device_);
  const auto plan =
      PlanGatedScan({.segments = 2, .max_rows = 1, .channels = 8}, device_->multiprocessors());
  ASSERT_TRUE(plan.ok());
  const std::vector<GatedScanSegment> segments(3);
  EXPECT_EQ(device_->Run(GatedScanOp{*plan, arrays.Place(segments), 3}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Run(GatedScanOp{*plan}), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Runners, GatedScanTest, ::testing::ValuesIn(Runners()), NameOfRunner);
INSTANTIATE_TEST_SUITE_P(Runners, GatedScanDeviceTest, ::testing::Values(Runner()), NameOfRunner);

}  // namespace
}  // namespace recollect::kernels
