// The families without landmarks that choose their mixers by layer against the PyTorch oracles, on
// the cases of tests/golden/families (tests/golden/README.md has the format).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/cpu_model.h"
#include "model/device/device_model.h"
#include "model/weights/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/kernels/device/test_device.h"
#include "tests/model/device/device_functions.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

// fp32: of the largest |logit| of a row, at most 1.6e-6 when this was set. bf16: ‖error‖ / ‖logits‖
// over a case.
constexpr double kLogitTolerance = 1e-5;
constexpr double kBf16Tolerance = 0.02;

const std::string kFolder = SourceDir() + "/tests/golden/families";

// A case that goes missing must fail, not shrink the test.
std::vector<std::string> CaseNames() {
  std::set<std::string> names = {"llama",
                                 "llama_scaled",
                                 "llama_untied",
                                 "rat",
                                 "rat_chunk_of_one",
                                 "rat_no_positions",
                                 "rat_no_sharing",
                                 "rat_one_chunk",
                                 "rat_swa",
                                 "rat_swa_full",
                                 "rat_swa_no_positions",
                                 "rattention",
                                 "rattention_global",
                                 "rattention_learned_init",
                                 "rattention_no_window",
                                 "rattention_one_kv_head",
                                 "rattention_qk_scale",
                                 "rattention_relu",
                                 "rattention_window_of_one"};
  return {names.begin(), names.end()};
}

class FamilyGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Actual and expected logits of the whole sequence, `rows_per_call` rows at a time, on a device
  // where one is given.
  void Run(DType dtype, kernels::Device* device, int64_t rows_per_call = kBlockRows) {
    const std::string folder = absl::StrCat(kFolder, "/", GetParam());
    ASSERT_TRUE(std::filesystem::exists(folder + "/case.json"))
        << folder << " is missing; run train/families/goldens.py";
    const auto input = nlohmann::json::parse(ReadFile(folder + "/case.json"));
    const auto model = CpuModel::Load(folder, dtype);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto file = SafetensorsFile::Open(folder + "/case.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    expected_ = *file->ReadFloats("logits");
    const LocalPatterns& pattern = (*model)->config().local;
    const auto tokens = input["events"][0]["tokens"].get<std::vector<int32_t>>();
    if (device == nullptr) {
      actual_ = RunTokens(**model, pattern, tokens, rows_per_call);
    } else {
      const auto on_device = LoadGoldenOn(*device, **model, folder);
      ASSERT_NE(on_device, nullptr);
      actual_ = RunTokensOn(*on_device, **model, pattern, tokens, rows_per_call);
    }
    ASSERT_EQ(actual_.size(), expected_.size());
    width_ = static_cast<size_t>((*model)->config().vocab_size);
  }

  void ExpectFp32EqualsTheOracle(kernels::Device* device);
  void ExpectBf16StaysNearTheOracle(kernels::Device* device);

  size_t width_ = 0;
  std::vector<float> actual_, expected_;
};

void FamilyGoldenTest::ExpectFp32EqualsTheOracle(kernels::Device* device) {
  std::vector<float> first;
  for (const int64_t rows_per_call : {int64_t{kBlockRows}, int64_t{1}, int64_t{1000}}) {
    ASSERT_NO_FATAL_FAILURE(Run(DType::kFloat32, device, rows_per_call));
    if (first.empty()) first = actual_;
    EXPECT_EQ(actual_, first) << rows_per_call;
    double worst = 0;
    for (size_t row = 0; row < expected_.size(); row += width_) {
      double scale = 0, error = 0;
      for (size_t i = row; i < row + width_; ++i) {
        scale = std::max<double>(scale, std::abs(expected_[i]));
        error = std::max<double>(error, std::abs(actual_[i] - expected_[i]));
      }
      worst = std::max(worst, error / scale);
    }
    std::printf("%s fp32: largest error %.2e of a row's largest logit\n", GetParam().c_str(),
                worst);
    EXPECT_LE(worst, kLogitTolerance);
  }
}

void FamilyGoldenTest::ExpectBf16StaysNearTheOracle(kernels::Device* device) {
  if (!kernels::Bf16Supported()) GTEST_SKIP() << "this CPU has no bf16 products";
  ASSERT_NO_FATAL_FAILURE(Run(DType::kBf16, device));
  double error = 0, norm = 0;
  for (size_t i = 0; i < expected_.size(); ++i) {
    error += std::pow(actual_[i] - expected_[i], 2);
    norm += std::pow(expected_[i], 2);
  }
  std::printf("%s bf16: %.4f relative\n", GetParam().c_str(), std::sqrt(error / norm));
  EXPECT_LE(std::sqrt(error / norm), kBf16Tolerance);
}

TEST_P(FamilyGoldenTest, Fp32EqualsTheOracle) { ExpectFp32EqualsTheOracle(nullptr); }

TEST_P(FamilyGoldenTest, Bf16StaysNearTheOracle) { ExpectBf16StaysNearTheOracle(nullptr); }

class DeviceFamilyGoldenTest : public FamilyGoldenTest {
 protected:
  void SetUp() override { RECOLLECT_SKIP_WITHOUT(device_); }
  const std::shared_ptr<kernels::Device> device_ = kernels::OpenTestDevice();
};

TEST_P(DeviceFamilyGoldenTest, Fp32EqualsTheOracle) { ExpectFp32EqualsTheOracle(device_.get()); }

TEST_P(DeviceFamilyGoldenTest, Bf16StaysNearTheOracle) {
  ExpectBf16StaysNearTheOracle(device_.get());
}

INSTANTIATE_TEST_SUITE_P(Cases, DeviceFamilyGoldenTest, ::testing::ValuesIn(CaseNames()),
                         [](const auto& param) { return param.param; });
INSTANTIATE_TEST_SUITE_P(Cases, FamilyGoldenTest, ::testing::ValuesIn(CaseNames()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace recollect::model
