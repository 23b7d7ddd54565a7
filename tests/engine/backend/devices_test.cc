// Models loaded for a device, which is the host, running the thread blocks of the CUDA operations.
// What a device runs does not depend on what this CPU could: also run as on one without bf16.
#include "engine/backend/devices.h"

#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "kernels/gemm/gemm.h"
#include "tests/engine/engine_testing.h"
#include "tests/kernels/device/host_device.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

using ::testing::HasSubstr;

class DevicesTest : public ::testing::Test {
 protected:
  static std::string Write(const std::string& name, const model::ModelConfig& config) {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string directory =
        absl::StrCat(::testing::TempDir(), "/devices_", test->name(), "_", name);
    WriteTinyModel(directory, config, 1);
    return directory;
  }
  // 20 tokens after a prompt and a document.
  static std::vector<int32_t> Run(const LoadedModel& loaded) {
    const auto engine = *Engine::Create(SmallOptions(), loaded, store::CreateMemoryStore());
    std::vector<std::string> mounts;
    const model::ModelConfig& config = loaded.model->config();
    if (config.landmarks() || config.has_adapter()) {
      mounts = {"doc"};
      EXPECT_TRUE(IngestTokens(*engine, "doc", SampleTokens(200, 1)).ok());
    }
    const Generated generated = Generate(*engine, TokensRequest(SampleTokens(70, 2), 20, mounts));
    EXPECT_TRUE(generated.status.ok()) << generated.status;
    return generated.tokens;
  }

  const std::shared_ptr<kernels::HostDevice> device_ = std::make_shared<kernels::HostDevice>();
};

TEST_F(DevicesTest, ADeviceRunsBf16WhateverThisCpuHas) {
  const std::string directory = Write("tiny", TinyConfig());
  const auto loaded = LoadModelOn(device_, directory, std::nullopt);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->model->dtype(), DType::kBf16);
  EXPECT_EQ(dynamic_cast<const model::CpuModel*>(loaded->model.get()), nullptr)
      << "weights that only the device needs";
  EXPECT_EQ(loaded->backend->name(), device_->name());
  EXPECT_EQ(loaded->landmarks->name(), device_->name());
  const std::vector<int32_t> tokens = Run(*loaded);
  EXPECT_EQ(tokens.size(), 20u);
  const auto asked = LoadModelOn(device_, directory, DType::kBf16);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(Run(*asked), tokens);
  EXPECT_EQ(asked->model->fingerprint(), loaded->model->fingerprint());
}

TEST_F(DevicesTest, ThisCpuRunsWhatItHas) {
  const std::string directory = Write("tiny", TinyConfig());
  const auto loaded = LoadModelOn(nullptr, directory, std::nullopt);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->model->dtype(), kernels::Bf16Supported() ? DType::kBf16 : DType::kFloat32);
  EXPECT_EQ(loaded->backend->name(), "cpu");
  EXPECT_EQ(loaded->landmarks->name(), "cpu");
  EXPECT_EQ(LoadModelOn(nullptr, directory, DType::kBf16).ok(), kernels::Bf16Supported());
}

TEST_F(DevicesTest, InFp32TokensAreThoseOfThisCpu) {
  for (const auto& [name, config] :
       {std::pair("tiny", TinyConfig()), std::pair("ratplus", TinyRatPlusConfig())}) {
    const std::string directory = Write(name, config);
    const auto here = LoadModelOn(nullptr, directory, DType::kFloat32);
    const auto there = LoadModelOn(device_, directory, DType::kFloat32);
    ASSERT_TRUE(here.ok() && there.ok()) << here.status() << there.status();
    EXPECT_EQ(Run(*there), Run(*here)) << name;
    EXPECT_EQ(there->model->fingerprint(), here->model->fingerprint());
    EXPECT_EQ(there->model->parameters(), here->model->parameters());
  }
}

// Products in bf16 are of multiples of 8.
TEST_F(DevicesTest, SizesThatBf16LacksRunInFp32) {
  model::ModelConfig config = TinyConfig();
  config.ffn = 60;
  const std::string directory = Write("odd", config);
  const auto loaded = LoadModelOn(device_, directory, std::nullopt);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->model->dtype(), DType::kFloat32);
  EXPECT_EQ(loaded->backend->name(), device_->name());
  EXPECT_EQ(Run(*loaded).size(), 20u);
}

TEST_F(DevicesTest, LayersThatNoDeviceTakesRunHere) {
  model::ModelConfig wide = TinyConfig();
  wide.head_dim = 130;
  const auto loaded = LoadModelOn(device_, Write("wide", wide), DType::kFloat32);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->backend->name(), "cpu");
  EXPECT_EQ(loaded->landmarks->name(), device_->name());
  EXPECT_EQ(Run(*loaded).size(), 20u);

  model::ModelConfig prefixes = TinyRatPlusConfig();
  prefixes.head_dim = 130;
  EXPECT_THAT(
      LoadModelOn(device_, Write("wide_prefixes", prefixes), std::nullopt).status(),
      StatusIs(absl::StatusCode::kFailedPrecondition, "heads of 130 channels, at most 128"));
}

// A GGUF file in blocks: its numbers in bf16, or in fp32 with the tokens of this CPU.
TEST_F(DevicesTest, APretrainedModelRunsFromItsFile) {
  const std::string directory = ::testing::TempDir() + "/devices_llama";
  WriteTinyLlama(directory);
  for (const GgufTensorType type : {GgufTensorType::kQ8_0, GgufTensorType::kQ4_1}) {
    const std::string file = absl::StrCat(directory, "/", static_cast<int>(type), ".gguf");
    WriteGguf(directory, file, type);
    const auto fastest = LoadModelOn(device_, file, std::nullopt);
    const auto asked = LoadModelOn(device_, file, DType::kQuantized);
    ASSERT_TRUE(fastest.ok() && asked.ok()) << fastest.status() << asked.status();
    EXPECT_EQ(fastest->model->dtype(), DType::kBf16);
    EXPECT_EQ(asked->model->dtype(), DType::kBf16);
    EXPECT_EQ(fastest->backend->name(), device_->name());
    EXPECT_EQ(fastest->landmarks->name(), "cpu");
    EXPECT_NE(fastest->sparse, nullptr) << "words are searched on the device";
    EXPECT_EQ(Run(*fastest), Run(*asked));
    const auto here = LoadModelOn(nullptr, file, DType::kFloat32);
    const auto there = LoadModelOn(device_, file, DType::kFloat32);
    ASSERT_TRUE(here.ok() && there.ok()) << here.status() << there.status();
    EXPECT_EQ(Run(*there), Run(*here));
    EXPECT_EQ(there->model->fingerprint(), here->model->fingerprint());
  }
}

// Its encoder and pointer run here; with it mounted and without, tokens are those of this CPU.
TEST_F(DevicesTest, AMemoryAdapterRunsOnBothSides) {
  const std::string directory = ::testing::TempDir() + "/devices_adapter";
  WriteTinyAdapter(directory);
  const auto fastest = LoadModelOn(device_, directory, std::nullopt);
  ASSERT_TRUE(fastest.ok()) << fastest.status();
  EXPECT_EQ(fastest->model->dtype(), kernels::Bf16Supported() ? DType::kBf16 : DType::kFloat32);
  EXPECT_EQ(Run(*fastest).size(), 20u);
  const auto here = LoadModelOn(nullptr, directory, DType::kFloat32);
  const auto there = LoadModelOn(device_, directory, DType::kFloat32);
  ASSERT_TRUE(here.ok() && there.ok()) << here.status() << there.status();
  EXPECT_EQ(there->backend->name(), device_->name());
  EXPECT_EQ(there->landmarks->name(), "cpu");
  EXPECT_NE(there->sparse, nullptr);
  EXPECT_EQ(here->sparse, nullptr);
  EXPECT_LT(there->model->weight_bytes(), here->model->weight_bytes());
  EXPECT_EQ(Run(*there), Run(*here));
  EXPECT_EQ(there->model->fingerprint(), here->model->fingerprint());
}

TEST_F(DevicesTest, ErrorsNameTheModelOrTheDevice) {
  const absl::Status missing = LoadModelOn(device_, "/none/such", std::nullopt).status();
  EXPECT_THAT(std::string(missing.message()), HasSubstr("model /none/such: "));
  EXPECT_EQ(missing.message(),
            "model /none/such: /none/such/config.json: No such file or directory");
  const std::string file = ::testing::TempDir() + "/devices_no.gguf";
  std::ofstream(file) << "no model, but a text";
  const absl::Status no_model = LoadModelOn(nullptr, file, std::nullopt).status();
  EXPECT_EQ(no_model.message(), absl::StrCat("model ", file,
                                             ": begins with \"no m\", expected "
                                             "\"GGUF\": not a GGUF file"));
  const std::string directory = Write("tiny", TinyConfig());
  EXPECT_EQ(LoadModel("gpu", directory, std::nullopt).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(LoadModelOn(nullptr, directory, std::nullopt, -1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, "threads: -1, expected at least 0"));
  device_->LimitBytes(1000);
  EXPECT_EQ(LoadModelOn(device_, directory, std::nullopt).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace recollect::engine
