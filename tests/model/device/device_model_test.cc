// The decoder layers of a bf16 model on a device: caches in Bf16 under patterns that differ by
// head, over so many positions that every part of a cache has dropped entries.
#include "model/device/device_model.h"

#include <cmath>
#include <optional>

#include "tests/kernels/device/test_device.h"
#include "tests/model/device/device_functions.h"
#include "tests/model/model_testing.h"

namespace recollect::model {
namespace {

constexpr int64_t kPositions = 900;
// ‖error‖ / ‖rows‖ beside the fp32 model, as for logits (golden_test.cc).
constexpr double kBf16Tolerance = 0.02;

// Neither part's length is a multiple of a split, and most begin in the middle of one.
LocalPatterns Patterns(const ModelConfig& config) {
  const LocalPattern close = {.window = 40, .dilation = 1, .initial = 3, .span = 170};
  const LocalPattern far = {.window = 127, .dilation = 2, .initial = 3, .span = 400};
  return LocalPatterns(std::vector<HeadPatterns>(config.layers(), {close, far}));
}

class Bf16DeviceModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RECOLLECT_SKIP_WITHOUT(device_);
    if (!kernels::Bf16Supported()) GTEST_SKIP() << "this CPU has no bf16 products";
    ModelConfig config = TinyConfig();
    config.groups.resize(1);  // three layers
    model_ = Make("model", config, DType::kBf16);
    ASSERT_NE(model_, nullptr);
    auto loaded = DeviceModel::Load(*device_, *model_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    on_device_ = *std::move(loaded);
  }

  const ModelConfig& config() const { return model_->config(); }
  int layers() const { return config().layers(); }

  std::vector<float> Embedded(int64_t rows, uint64_t seed) const {
    std::vector<float> h(static_cast<size_t>(rows * config().d));
    model_->Embed(RandomTokens(rows, seed), h.data());
    return h;
  }
  std::unique_ptr<DeviceFunctions> NewSequence() {
    return std::make_unique<DeviceFunctions>(*on_device_, Patterns(config()));
  }
  // The next `rows` rows of a sequence through all layers, in place.
  void Advance(DeviceFunctions& sequence, int64_t rows, int64_t rows_per_call, float* h) {
    sequence.RunLayers(0, layers(), rows, rows_per_call, nullptr, h);
  }
  std::vector<float> Whole(uint64_t seed) {
    std::vector<float> h = Embedded(kPositions, seed);
    Advance(*NewSequence(), kPositions, kPositions, h.data());
    return h;
  }

  const std::shared_ptr<kernels::Device> device_ = kernels::OpenTestDevice();
  std::unique_ptr<CpuModel> model_;
  std::unique_ptr<DeviceModel> on_device_;
};

TEST_F(Bf16DeviceModelTest, AnyCutOfAPromptHasTheSameBits) {
  const std::vector<float> whole = Whole(5);
  for (const int64_t rows : {1, 50, 333}) {
    std::vector<float> h = Embedded(kPositions, 5);
    const auto sequence = NewSequence();
    Advance(*sequence, kPositions, rows, h.data());
    EXPECT_EQ(h, whole) << rows;
    if (rows > 50) continue;
    // Window and dilated part, twice a split each; without dropping they would be 1575 entries.
    const int64_t entry = 2 * config().inner() * int64_t{sizeof(Bf16)};
    EXPECT_LT(sequence->state().bytes(), layers() * 1100 * entry) << rows;
  }
}

TEST_F(Bf16DeviceModelTest, AStoredStateGoesOnWithTheSameBits) {
  const int64_t d = config().d;
  const std::vector<float> whole = Whole(5);
  for (const int64_t cut : {1, 255, 700}) {
    std::vector<float> h = Embedded(kPositions, 5);
    const auto first = NewSequence(), second = NewSequence();
    Advance(*first, cut, 64, h.data());
    const auto stored = first->Stored();
    ASSERT_TRUE(stored.ok()) << stored.status();
    const std::string bytes = stored->Serialize();
    ASSERT_EQ(second->state().Begin(*device_, *stored), absl::OkStatus());
    const auto again = second->Stored();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->Serialize(), bytes);
    Advance(*second, kPositions - cut, 64, h.data() + cut * d);
    EXPECT_EQ(h, whole) << cut;
  }
}

// Decode steps and prompt slices side by side.
TEST_F(Bf16DeviceModelTest, SequencesInOneCallHaveTheBitsOfEachAlone) {
  const int64_t d = config().d;
  std::vector<std::vector<float>> whole, rows;
  std::vector<std::unique_ptr<DeviceFunctions>> sequences;
  std::vector<int64_t> done;
  for (uint64_t seed = 5; seed < 8; ++seed) {
    whole.push_back(Whole(seed));
    rows.push_back(Embedded(kPositions, seed));
    sequences.push_back(NewSequence());
    done.push_back(0);
  }
  const std::vector<std::vector<int64_t>> steps = {{300, 1, 64},   {1, 200, 1}, {1, 1, 1},
                                                   {300, 64, 400}, {7, 65, 1},  {64, 500, 100}};
  for (const std::vector<int64_t>& step : steps) {
    std::vector<float> h;
    std::vector<DeviceSegment> segments;
    for (size_t i = 0; i < step.size(); ++i) {
      h.insert(h.end(), rows[i].begin() + done[i] * d, rows[i].begin() + (done[i] + step[i]) * d);
      segments.push_back({.state = &sequences[i]->state(), .rows = step[i]});
    }
    const auto bytes = static_cast<int64_t>(h.size() * sizeof(float));
    const auto memory = device_->Allocate(bytes).value();
    float* const x = static_cast<float*>(memory->data());
    ASSERT_EQ(device_->Upload(h.data(), bytes, x), absl::OkStatus());
    ASSERT_EQ(on_device_->RunLayers(0, layers(), segments, x), absl::OkStatus());
    ASSERT_EQ(device_->Download(x, bytes, h.data()), absl::OkStatus());
    const float* from = h.data();
    for (size_t i = 0; i < step.size(); ++i) {
      const std::vector<float> expected(whole[i].begin() + done[i] * d,
                                        whole[i].begin() + (done[i] + step[i]) * d);
      EXPECT_EQ(std::vector<float>(from, from + step[i] * d), expected) << i;
      from += step[i] * d;
      done[i] += step[i];
    }
  }
}

TEST_F(Bf16DeviceModelTest, StaysNearTheFp32Model) {
  const std::vector<float> h = Whole(5);
  const auto fp32 = CpuModel::Load(Directory("model"));
  ASSERT_TRUE(fp32.ok()) << fp32.status();
  std::vector<float> expected = Embedded(kPositions, 5);
  LocalState state = LocalState::Create(config(), Patterns(config()), layers());
  kernels::OpContext ctx;
  for (int64_t row = 0; row < kPositions; row += kBlockRows) {
    for (int layer = 0; layer < layers(); ++layer) {
      const Segment segment{&state.layers[layer], std::min<int64_t>(kBlockRows, kPositions - row),
                            nullptr};
      (*fp32)->RunLayer(ctx, layer, {&segment, 1}, expected.data() + row * config().d);
    }
  }
  double error = 0, norm = 0;
  for (size_t i = 0; i < h.size(); ++i) {
    error += std::pow(h[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  std::printf("bf16 on a device: %.5f relative\n", std::sqrt(error / norm));
  EXPECT_LE(std::sqrt(error / norm), kBf16Tolerance);
}

}  // namespace
}  // namespace recollect::model
