// The calls that the gated scan is tested on, with their tolerances, and how they run on the CPU
// and on a device.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/gated_scan/gated_scan.h"
#include "kernels/gated_scan/gated_scan_plan.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::scan_cases {

// Rows of a sequence, and the state before them. x and state have an entry for each input.
struct Sequence {
  int64_t rows = 0, first = 0;
  std::vector<float> z;  // [rows, channels], as each x
  std::vector<std::vector<float>> x = {};
  std::vector<std::vector<float>> state = {};  // [channels] each
};

struct Call {
  static constexpr int kWays = 4;  // of RunOnDevice
  int64_t channels = 0;
  int64_t chunk = 0;
  std::vector<float> bias = {};  // empty: none
  std::vector<Sequence> sequences = {};
  int64_t gap = 0;        // floats between a row and the next
  bool in_place = false;  // y is x
  int64_t spare = 0;      // rows and segments for which a plan has room beyond those of the call

  int inputs() const { return static_cast<int>(sequences[0].x.size()); }
};

// y and the state after it, of each input of one sequence.
struct Result {
  std::vector<std::vector<float>> y;
  std::vector<std::vector<float>> state;
};

inline constexpr float kBetweenRows = -77.0f;

inline std::vector<float> Spread(const std::vector<float>& dense, int64_t channels,
                                 int64_t stride) {
  std::vector<float> spread;
  for (size_t at = 0; at < dense.size(); at += channels) {
    spread.insert(spread.end(), dense.begin() + at, dense.begin() + at + channels);
    spread.resize(spread.size() + stride - channels, kBetweenRows);
  }
  return spread;
}

// And looks at what lies between rows, which is no one's to write.
inline std::vector<float> Gather(const std::vector<float>& spread, int64_t channels,
                                 int64_t stride) {
  std::vector<float> dense;
  for (size_t i = 0; i < spread.size(); ++i) {
    if (static_cast<int64_t>(i) % stride < channels) {
      dense.push_back(spread[i]);
    } else {
      EXPECT_EQ(spread[i], kBetweenRows) << "written between rows, at " << i;
    }
  }
  return dense;
}

// A run returns what each sequence came to. On the CPU each input goes alone.
inline std::vector<Result> RunOnCpu(OpContext& ctx, const Call& call) {
  const int64_t channels = call.channels, stride = channels + call.gap;
  const int64_t y_stride = call.in_place ? stride : channels + 2 * call.gap;
  const float* const bias = call.bias.empty() ? nullptr : call.bias.data();
  std::vector<Result> results;
  for (const Sequence& sequence : call.sequences) {
    Result& result = results.emplace_back();
    Guarded z(Spread(sequence.z, channels, stride));
    for (int i = 0; i < call.inputs(); ++i) {
      Guarded x(Spread(sequence.x[i], channels, stride)), state(sequence.state[i]);
      const std::vector<float> nothing(sequence.rows * channels, std::nanf(""));
      Guarded apart(Spread(nothing, channels, y_stride));
      Guarded& y = call.in_place ? x : apart;
      if (call.chunk == 0) {
        GatedScan(ctx, z.data(), bias, x.data(), stride, sequence.rows, channels, state.data(),
                  y.data(), y_stride);
      } else {
        ChunkedGatedScan(ctx, sequence.first, call.chunk, z.data(), bias, x.data(), stride,
                         sequence.rows, channels, state.data(), y.data(), y_stride);
      }
      result.y.push_back(Gather(y.values(), channels, y_stride));
      result.state.push_back(state.values());
    }
  }
  return results;
}

// Strategies, with all arrays at aligned addresses and a float past them.
inline std::vector<Result> RunOnDevice(Device& device, const Call& call, int way) {
  using Strategy = GatedScanPlan::Strategy;
  const int64_t channels = call.channels, stride = channels + call.gap;
  const int64_t y_stride = call.in_place ? stride : channels + 2 * call.gap;
  const size_t shift = way / 2;
  device_cases::Arrays arrays(device);
  GatedScanSizes sizes{.segments = static_cast<int64_t>(call.sequences.size()) + call.spare,
                       .max_rows = call.spare,
                       .channels = channels,
                       .inputs = call.inputs(),
                       .chunk = call.chunk};
  std::vector<GatedScanSegment> segments;
  for (const Sequence& sequence : call.sequences) {
    sizes.max_rows = std::max(sizes.max_rows, sequence.rows + call.spare);
    GatedScanSegment& segment = segments.emplace_back();
    segment.rows = sequence.rows;
    segment.first = sequence.first;
    segment.z = arrays.Place(Spread(sequence.z, channels, stride), shift);
    const std::vector<float> nothing(sequence.rows * channels, std::nanf(""));
    for (int i = 0; i < call.inputs(); ++i) {
      float* const x = arrays.Place(Spread(sequence.x[i], channels, stride), shift);
      segment.x[i] = x;
      segment.y[i] = call.in_place ? x : arrays.Place(Spread(nothing, channels, y_stride), shift);
      segment.state[i] = arrays.Place(sequence.state[i], shift);
    }
  }
  const auto plan = PlanGatedScan(sizes, way % 2 == 0 ? Strategy::kByChannel : Strategy::kByTile);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(CheckGatedScan(*plan, segments), absl::OkStatus());
  EXPECT_EQ(device.Run(GatedScanOp{.plan = *plan,
                                   .segments = arrays.Place(segments),
                                   .segment_count = static_cast<int64_t>(segments.size()),
                                   .bias = call.bias.empty() ? nullptr : arrays.Place(call.bias),
                                   .stride = stride,
                                   .y_stride = y_stride}),
            absl::OkStatus());
  std::vector<Result> results;
  for (const GatedScanSegment& segment : segments) {
    Result& result = results.emplace_back();
    for (int i = 0; i < call.inputs(); ++i) {
      result.y.push_back(
          Gather(arrays.Read(segment.y[i], segment.rows * y_stride), channels, y_stride));
      result.state.push_back(arrays.Read(segment.state[i], channels));
    }
  }
  return results;
}

inline Sequence RandomSequence(int64_t rows, int64_t channels, int inputs, uint32_t seed,
                               float z_mean = 0) {
  Sequence sequence{.rows = rows, .first = 0, .z = Normals(rows * channels, seed, 2)};
  for (float& z : sequence.z) z += z_mean;
  for (int i = 0; i < inputs; ++i) {
    sequence.x.push_back(Normals(rows * channels, seed + 100 + i));
    sequence.state.push_back(Normals(channels, seed + 200 + i));
  }
  return sequence;
}

// Rows [begin, end), with the state of `before` if there is one.
inline Sequence Slice(const Sequence& sequence, int64_t channels, int64_t begin, int64_t end,
                      const Result* before) {
  const auto slice = [&](const std::vector<float>& all) {
    return std::vector<float>(all.begin() + begin * channels, all.begin() + end * channels);
  };
  Sequence part{.rows = end - begin, .first = sequence.first + begin, .z = slice(sequence.z)};
  for (const std::vector<float>& x : sequence.x) part.x.push_back(slice(x));
  part.state = before == nullptr ? sequence.state : before->state;
  return part;
}

// ChunkedGatedScan by its definition, row by row in double: the state is 0 before each chunk.
inline void ChunkedReference(int64_t first, int64_t chunk, const float* z, const float* bias,
                             const float* x, int64_t stride, int64_t rows, int64_t channels,
                             float* state, float* y, int64_t y_stride) {
  for (int64_t row = 0; row < rows; ++row) {
    if ((first + row) % chunk == 0) std::fill_n(state, channels, 0.0f);
    GatedScan(Scalar(), z + row * stride, bias, x + row * stride, stride, 1, channels, state,
              y + row * y_stride, y_stride);
  }
}

inline void ExpectMatchesReference(const Call& call, const Sequence& sequence,
                                   const Result& result) {
  const int64_t channels = call.channels, rows = sequence.rows;
  const float* const bias = call.bias.empty() ? nullptr : call.bias.data();
  for (int i = 0; i < call.inputs(); ++i) {
    std::vector<float> state = sequence.state[i], expected(rows * channels);
    if (call.chunk == 0) {
      GatedScan(Scalar(), sequence.z.data(), bias, sequence.x[i].data(), channels, rows, channels,
                state.data(), expected.data(), channels);
    } else {
      ChunkedReference(sequence.first, call.chunk, sequence.z.data(), bias, sequence.x[i].data(),
                       channels, rows, channels, state.data(), expected.data(), channels);
    }
    ASSERT_EQ(result.y[i].size(), expected.size());
    for (int64_t c = 0; c < channels; ++c) {
      double largest = std::isnan(sequence.state[i][c]) ? 0 : std::abs(sequence.state[i][c]);
      double steepest = 0;
      for (int64_t at = c; at < rows * channels; at += channels) {
        largest = std::max<double>(largest, std::abs(sequence.x[i][at]));
        steepest =
            std::max<double>(steepest, std::abs(sequence.z[at] + (bias == nullptr ? 0 : bias[c])));
        EXPECT_CLOSE(result.y[i][at], expected[at], largest * (1 + steepest),
                     testing::kGatedScanFactor)
            << "input " << i << ", row " << at / channels << ", channel " << c;
      }
      // The state is the last y, or what it was.
      const float last = rows == 0 ? sequence.state[i][c] : result.y[i][(rows - 1) * channels + c];
      EXPECT_EQ(std::bit_cast<uint32_t>(result.state[i][c]), std::bit_cast<uint32_t>(last))
          << "channel " << c;
    }
  }
}

inline ::testing::AssertionResult SameBits(const Result& actual, const Result& expected) {
  for (size_t i = 0; i < expected.y.size(); ++i) {
    for (const auto& [a, b] : {std::pair(&actual.y[i], &expected.y[i]),
                               std::pair(&actual.state[i], &expected.state[i])}) {
      if (auto same = kernels::SameBits(*a, *b); !same) return same << ", input " << i;
    }
  }
  return ::testing::AssertionSuccess();
}
inline ::testing::AssertionResult SameBits(const std::vector<Result>& actual,
                                           const std::vector<Result>& expected) {
  for (size_t s = 0; s < expected.size(); ++s) {
    if (auto same = SameBits(actual[s], expected[s]); !same) return same << ", sequence " << s;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace recollect::kernels::scan_cases
