#include "kernels/gated_scan_cuda.h"

#include <algorithm>

#include "kernels/reference.h"
#include "tests/kernels/cuda_test_util.h"

namespace recollect::kernels {
namespace {

class GatedScanCudaTest : public CudaTest {
 protected:
  // Runs the scan in cuts of `cut` rows; x and y share memory.
  void Scan(const std::vector<float>& z, const std::vector<float>& bias,
            const std::vector<float>& x, int64_t rows, int64_t channels, int64_t cut,
            std::vector<float>* state, std::vector<float>* y) {
    const DeviceArray<float> dz(z), db(bias), dy(x), ds(*state);
    for (int64_t t = 0; t < rows; t += cut) {
      ASSERT_EQ(GatedScanCuda(nullptr, dz.data() + t * channels, bias.empty() ? nullptr : db.data(),
                              dy.data() + t * channels, channels, std::min(cut, rows - t), channels,
                              ds.data(), dy.data() + t * channels, channels),
                absl::OkStatus());
    }
    *y = dy.Download();
    *state = ds.Download();
  }
};

TEST_F(GatedScanCudaTest, MatchesReferenceAndAnyCutGivesTheSameBits) {
  struct Case {
    int64_t rows, channels;
  };
  for (const Case& c : {Case{0, 8}, {1, 1}, {2, 7}, {63, 33}, {200, 256}, {1000, 100}}) {
    for (bool with_bias : {false, true}) {
      SCOPED_TRACE(absl::StrCat(c.rows, " x ", c.channels, with_bias ? " with bias" : ""));
      const std::vector<float> z = Normals(c.rows * c.channels, 1, 2);
      const std::vector<float> x = Normals(c.rows * c.channels, 2);
      const std::vector<float> bias = with_bias ? Normals(c.channels, 3) : std::vector<float>();
      const std::vector<float> start = Normals(c.channels, 4);
      std::vector<float> expected_state = start, expected(x.size());
      OpContext ctx;
      reference::GatedScan(ctx, z.data(), with_bias ? bias.data() : nullptr, x.data(), c.channels,
                           c.rows, c.channels, expected_state.data(), expected.data(), c.channels);
      double largest = 1, steepest = 1;
      for (float v : x) largest = std::max(largest, 1.0 * std::abs(v));
      for (float v : start) largest = std::max(largest, 1.0 * std::abs(v));
      for (float v : z) steepest = std::max(steepest, 4.0 + std::abs(v));
      std::vector<float> whole_state = start, whole;
      Scan(z, bias, x, c.rows, c.channels, std::max<int64_t>(1, c.rows), &whole_state, &whole);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_CLOSE(whole[i], expected[i], largest * steepest, testing::kGatedScanFactor);
      }
      for (int64_t cut : {1, 17}) {
        std::vector<float> state = start, y;
        Scan(z, bias, x, c.rows, c.channels, cut, &state, &y);
        EXPECT_TRUE(SameBits(y, whole)) << "cut " << cut;
        EXPECT_TRUE(SameBits(state, whole_state)) << "cut " << cut;
      }
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
