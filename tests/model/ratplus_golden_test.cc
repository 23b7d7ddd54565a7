// The family ratplus against the PyTorch oracle on the cases of tests/golden/ratplus
// (tests/golden/README.md has the format).
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

// fp32: of the largest |logit| of a row, at most 6.4e-7 when this was set. bf16: ‖error‖ / ‖logits‖
// over a case.
constexpr double kLogitTolerance = 1e-5;
constexpr double kBf16Tolerance = 0.02;
// Where queries choose blocks, two near scores may swap places at the cut, and a row reads another
// block: at most 0.021 when this was set.
constexpr double kBf16ChoiceTolerance = 0.1;

// Rows at a time on a device: neither blocks nor windows are a multiple of it.
constexpr int64_t kSlice = 50;

const std::string kFolder = SourceDir() + "/tests/golden/ratplus";

// A model that goes missing must fail, not shrink the test.
std::vector<std::string> ModelNames() {
  std::set<std::string> names = {"bounded", "bounded_heads", "heads",  "layers",       "moba",
                                 "plain",   "quest",         "tokens", "no_recurrence"};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, ignored)) {
    if (entry.is_directory()) names.insert(entry.path().filename());
  }
  return {names.begin(), names.end()};
}

class RatPlusGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  void Load(DType dtype) {
    const std::string folder = absl::StrCat(kFolder, "/", GetParam());
    ASSERT_TRUE(std::filesystem::exists(folder + "/case.json"))
        << folder << " is missing; run train/eval/goldens_ratplus.py";
    input_ = nlohmann::json::parse(ReadFile(folder + "/case.json"));
    auto model = CpuModel::Load(folder, dtype);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    if (device_ != nullptr) {
      on_device_ = LoadGoldenOn(*device_, *model_, folder);
    }
    auto file = SafetensorsFile::Open(folder + "/case.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = std::make_unique<SafetensorsFile>(*std::move(file));
  }

  // Logits of the rows that the case keeps, under its pattern, as a request would ask for it.
  std::vector<float> Run(const nlohmann::json& asked) {
    LocalPatterns pattern = model_->config().local;
    const std::pair<const char*, int64_t LocalPattern::*> fields[] = {
        {"window", &LocalPattern::window},
        {"dilation", &LocalPattern::dilation},
        {"initial", &LocalPattern::initial}};
    for (const auto& [name, field] : fields) {
      if (!asked.contains(name)) continue;
      pattern = asked[name].is_array() ? pattern.With(field, asked[name].get<LayerNumbers>())
                                       : pattern.With(field, asked[name].get<int64_t>());
    }
    if (asked.contains("context")) pattern = pattern.WithContext(asked["context"].get<int64_t>());
    if (asked.contains("top_k_blocks")) {
      const auto count = asked["top_k_blocks"].get<int64_t>();
      pattern = pattern.WithBlocks(model_->config().top_k.With(count));
    }
    EXPECT_TRUE(ValidatePatterns(model_->config(), pattern).ok()) << asked;
    const auto tokens = input_["tokens"].get<std::vector<int32_t>>();
    const std::vector<float> all = on_device_ == nullptr
                                       ? RunTokens(*model_, pattern, tokens)
                                       : RunTokensOn(*on_device_, *model_, pattern, tokens, kSlice);
    const int64_t width = model_->config().vocab_size;
    std::vector<float> kept;
    for (const int64_t row : input_["logit_rows"]) {
      kept.insert(kept.end(), all.begin() + row * width, all.begin() + (row + 1) * width);
    }
    return kept;
  }

  std::vector<float> Expected(const std::string& name) {
    auto values = file_->ReadFloats(name);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? *std::move(values) : std::vector<float>();
  }

  void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected,
                  const std::string& name) {
    ASSERT_EQ(actual.size(), expected.size());
    const size_t width = static_cast<size_t>(model_->config().vocab_size);
    double worst = 0;
    for (size_t row = 0; row < expected.size(); row += width) {
      double scale = 0, error = 0;
      for (size_t i = row; i < row + width; ++i) {
        scale = std::max<double>(scale, std::abs(expected[i]));
        error = std::max<double>(error, std::abs(actual[i] - expected[i]));
      }
      worst = std::max(worst, error / scale);
    }
    std::printf("%s %s fp32: largest error %.2e of a row's largest logit\n", GetParam().c_str(),
                name.c_str(), worst);
    EXPECT_LE(worst, kLogitTolerance);
  }

  void ExpectFp32EqualsTheOracle() {
    ASSERT_NO_FATAL_FAILURE(Load(DType::kFloat32));
    for (const auto& [name, asked] : input_["cases"].items()) {
      SCOPED_TRACE(name);
      ExpectNear(Run(asked), Expected(name), name);
    }
  }
  void ExpectBf16StaysNearTheOracle();

  std::shared_ptr<kernels::Device> device_;  // null: the CPU
  nlohmann::json input_;
  std::unique_ptr<CpuModel> model_;
  std::unique_ptr<DeviceModel> on_device_;
  std::unique_ptr<SafetensorsFile> file_;
};

TEST_P(RatPlusGoldenTest, Fp32EqualsTheOracle) { ExpectFp32EqualsTheOracle(); }

// An oracle of its own: dense causal attention over the gated pairs, in double.
// The models with a dense case.
class RatPlusDenseTest : public RatPlusGoldenTest {};

TEST_P(RatPlusDenseTest, DilationOneEqualsTheDenseReference) {
  ASSERT_NO_FATAL_FAILURE(Load(DType::kFloat32));
  ASSERT_TRUE(input_["cases"].contains("dense"));
  ExpectNear(Run(input_["cases"]["dense"]), Expected("dense_reference"), "dense_reference");
}

void RatPlusGoldenTest::ExpectBf16StaysNearTheOracle() {
  if (!kernels::Bf16Supported()) GTEST_SKIP() << "this CPU has no bf16 products";
  ASSERT_NO_FATAL_FAILURE(Load(DType::kBf16));
  if (device_ != nullptr && on_device_ == nullptr) return;
  for (const auto& [name, asked] : input_["cases"].items()) {
    SCOPED_TRACE(name);
    const std::vector<float> actual = Run(asked), expected = Expected(name);
    ASSERT_EQ(actual.size(), expected.size());
    double error = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      error += std::pow(actual[i] - expected[i], 2);
      norm += std::pow(expected[i], 2);
    }
    std::printf("%s %s bf16: %.4f relative\n", GetParam().c_str(), name.c_str(),
                std::sqrt(error / norm));
    const bool chooses = asked.contains("top_k_blocks");
    EXPECT_LE(std::sqrt(error / norm), chooses ? kBf16ChoiceTolerance : kBf16Tolerance);
  }
}

TEST_P(RatPlusGoldenTest, Bf16StaysNearTheOracle) { ExpectBf16StaysNearTheOracle(); }

class DeviceRatPlusGoldenTest : public RatPlusGoldenTest {
 protected:
  void SetUp() override {
    device_ = kernels::OpenTestDevice();
    RECOLLECT_SKIP_WITHOUT(device_);
  }
};

TEST_P(DeviceRatPlusGoldenTest, Fp32EqualsTheOracle) { ExpectFp32EqualsTheOracle(); }

TEST_P(DeviceRatPlusGoldenTest, Bf16StaysNearTheOracle) { ExpectBf16StaysNearTheOracle(); }

INSTANTIATE_TEST_SUITE_P(Models, DeviceRatPlusGoldenTest, ::testing::ValuesIn(ModelNames()),
                         [](const auto& param) { return param.param; });
INSTANTIATE_TEST_SUITE_P(Models, RatPlusGoldenTest, ::testing::ValuesIn(ModelNames()),
                         [](const auto& param) { return param.param; });
INSTANTIATE_TEST_SUITE_P(Models, RatPlusDenseTest,
                         ::testing::Values("no_recurrence", "plain", "quest", "tokens"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace recollect::model
