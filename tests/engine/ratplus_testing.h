// Helpers of the engine's tests of models without landmarks (RAT+).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backend/device/device_backend.h"
#include "engine/backend/sampler.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {

inline std::string RatPlusDirectory(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/engine_ratplus_", name);
}

// Writes and loads the tiny model of this config, with the outputs of its sublayers scaled up so
// that they matter.
inline std::shared_ptr<const model::CpuModel> LoadRatPlusForTest(const std::string& name,
                                                                 const model::ModelConfig& config) {
  const std::string directory = RatPlusDirectory(name);
  WriteTinyModel(directory, config, 1, /*sublayers=*/8);
  auto model = model::CpuModel::Load(directory);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

class RatPlusEngineTest : public ::testing::Test {
 protected:
  // Expects that greedy generation went on after `prompt`: each token is the best after all before
  // it.
  void ExpectGreedy(const std::vector<int32_t>& prompt, const std::vector<int32_t>& generated,
                    const model::LocalPatterns& pattern) {
    std::vector<int32_t> ids = prompt;
    ids.insert(ids.end(), generated.begin(), generated.end());
    const std::vector<float> logits = RunTokens(*model_, pattern, ids);
    const int64_t vocab = model_->config().vocab_size;
    for (size_t i = 0; i < generated.size(); ++i) {
      const auto row = static_cast<int64_t>(prompt.size() + i) - 1;
      ASSERT_EQ(generated[i],
                Argmax(model_->config(), std::span(logits).subspan(row * vocab, vocab)))
          << "token " << i;
    }
  }

  std::unique_ptr<EngineImpl> Make(TestOptions options = SmallOptions(),
                                   std::unique_ptr<store::DocumentStore> store = nullptr) {
    if (device_ != nullptr) {
      auto backend = DeviceBackend::Create(device_, *model_);
      EXPECT_TRUE(backend.ok()) << backend.status();
      options.backend = *std::move(backend);
    }
    return MakeEngine(options, std::move(store), model_);
  }

  std::shared_ptr<kernels::Device> device_;  // of engines that are made; null: the CPU
  std::string name_ = "tiny";
  std::shared_ptr<const model::CpuModel> model_ = LoadRatPlusForTest(name_, TinyRatPlusConfig());
  const model::LocalPatterns default_ = model_->config().local;
};

}  // namespace recollect::engine
