#include "kernels/gated_scan/gated_scan.h"

#include <algorithm>

#include "tests/kernels/gated_scan/gated_scan_cases.h"

namespace recollect::kernels {
namespace {

struct Case {
  int64_t rows, channels;
};
constexpr Case kCases[] = {{0, 8},   {1, 1},   {1, 256}, {2, 7},   {63, 15},
                           {64, 64}, {65, 33}, {7, 100}, {200, 16}};

TEST(GatedScanTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (const Case& c : kCases) {
      for (bool with_bias : {false, true}) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", c.rows, " x ", c.channels));
        const int64_t stride = 2 * c.channels + 1, y_stride = c.channels + 3;
        Guarded z(Normals(c.rows * stride, 1, 2)), x(Normals(c.rows * stride, 2));
        Guarded bias(Normals(c.channels, 3)), state(Normals(c.channels, 4));
        Guarded expected_state(state.values());
        std::vector<float> largest = state.values();
        Guarded y(std::vector<float>(c.rows * y_stride, 5.0f));
        Guarded expected(std::vector<float>(c.rows * y_stride, 5.0f));
        const float* b = with_bias ? bias.data() : nullptr;
        GatedScan(ctx, z.data(), b, x.data(), stride, c.rows, c.channels, state.data(), y.data(),
                  y_stride);
        GatedScan(Scalar(), z.data(), b, x.data(), stride, c.rows, c.channels,
                  expected_state.data(), expected.data(), y_stride);
        double steepest = 1;
        for (float v : z.values()) steepest = std::max(steepest, 1.0 + std::abs(v));
        for (int64_t t = 0; t < c.rows; ++t) {
          for (int64_t i = 0; i < y_stride; ++i) {
            const float actual = y[t * y_stride + i];
            if (i >= c.channels) {
              EXPECT_EQ(actual, 5.0f);
              continue;
            }
            largest[i] = std::max(std::abs(largest[i]), std::abs(x[t * stride + i]));
            EXPECT_CLOSE(actual, expected[t * y_stride + i], largest[i] * steepest,
                         testing::kGatedScanFactor);
            if (t == c.rows - 1) {
              EXPECT_EQ(actual, state[i]);
            }
          }
        }
      }
    }
  }
}

TEST(GatedScanTest, AnyCutGivesTheSameBits) {
  const int64_t rows = 130, channels = 75;
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(IsaName(isa));
    OpContext ctx(isa);
    const std::vector<float> z = Normals(rows * channels, 1), x = Normals(rows * channels, 2);
    std::vector<float> whole_state(channels, 0.5f), whole(rows * channels);
    GatedScan(ctx, z.data(), nullptr, x.data(), channels, rows, channels, whole_state.data(),
              whole.data(), channels);
    for (int64_t cut : {1, 3, 64, 129}) {
      // In place this time: y may be x.
      std::vector<float> state(channels, 0.5f), y = x;
      for (int64_t t = 0; t < rows; t += cut) {
        GatedScan(ctx, z.data() + t * channels, nullptr, y.data() + t * channels, channels,
                  std::min(cut, rows - t), channels, state.data(), y.data() + t * channels,
                  channels);
      }
      EXPECT_TRUE(SameBits(y, whole)) << "cut " << cut;
      EXPECT_TRUE(SameBits(state, whole_state));
    }
  }
}

// Whatever the cut: chunks begin at absolute positions, and what the state was before one does not
// matter.
TEST(ChunkedGatedScanTest, MatchesReferenceInAnyCut) {
  const int64_t rows = 75, channels = 19, stride = 40;
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t chunk : {1, 2, 7, 16, 200}) {
      for (int64_t first : {0, 5, 32}) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", chunk, " from ", first));
        const std::vector<float> z = Normals(rows * stride, 1), x = Normals(rows * stride, 2);
        const std::vector<float> bias = Normals(channels, 3);
        std::vector<float> expected(rows * stride), expected_state(channels, 0.5f);
        scan_cases::ChunkedReference(first, chunk, z.data(), bias.data(), x.data(), stride, rows,
                                     channels, expected_state.data(), expected.data(), stride);
        std::vector<float> whole;
        for (int64_t cut : {rows, int64_t{1}, int64_t{10}}) {
          std::vector<float> state(channels, 0.5f), y = x;
          for (int64_t t = 0; t < rows; t += cut) {
            ChunkedGatedScan(ctx, first + t, chunk, z.data() + t * stride, bias.data(),
                             y.data() + t * stride, stride, std::min(cut, rows - t), channels,
                             state.data(), y.data() + t * stride, stride);
          }
          for (int64_t t = 0; t < rows; ++t) {
            for (int64_t c = 0; c < channels; ++c) {
              EXPECT_CLOSE(y[t * stride + c], expected[t * stride + c], 10,
                           testing::kGatedScanFactor);
            }
          }
          if (whole.empty()) whole = y;
          EXPECT_TRUE(SameBits(y, whole)) << "cut " << cut;
        }
      }
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
