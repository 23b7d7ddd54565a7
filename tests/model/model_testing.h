// Helpers of the tests of whole models: tiny models on disk, random tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/cpu_model.h"
#include "model/weights/safetensors.h"
#include "model/weights/weights.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {

// Returns a directory of the running test: tests of several programs may run at a time.
inline std::string Directory(const std::string& name) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(::testing::TempDir(), "/", test->test_suite_name(), "_", test->name(), "_",
                      name);
}

// RAttention without a window: linear attention is all there is.
inline ModelConfig LinearAlone() {
  ModelConfig config = TinyRattentionConfig();
  config.mixers = {
      {.kind = MixerKind::kRattention, .window = -1, .feature_map = kernels::FeatureMap::kRelu}};
  config.local = LocalPattern{-1, kNoDilation, 0, kUnboundedSpan};
  return config;
}

// Writes and loads a tiny model; null, with a failure, if it cannot be loaded.
inline std::unique_ptr<CpuModel> Make(const std::string& name, const ModelConfig& config,
                                      DType dtype = DType::kFloat32) {
  WriteTinyModel(Directory(name), config, 1);
  auto model = CpuModel::Load(Directory(name), dtype);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

// Makes the same with its tensors changed, in fp32.
inline std::unique_ptr<CpuModel> MakeChanged(
    const std::string& name, const ModelConfig& config,
    const std::function<void(const std::string& name, FloatTensor& tensor)>& change) {
  WriteTinyModel(Directory(name), config, 1);
  const std::string path = Directory(name) + "/model.safetensors";
  std::map<std::string, FloatTensor> tensors;
  {
    const auto file = SafetensorsFile::Open(path);
    for (const TensorSpec& spec : ExpectedTensors(config)) {
      FloatTensor tensor{spec.shape, file->ReadFloats(spec.name).value()};
      change(spec.name, tensor);
      tensors.emplace(spec.name, std::move(tensor));
    }
  }
  WriteSafetensors(path, tensors);
  auto model = CpuModel::Load(Directory(name));
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

// Returns random tokens of the tiny tokenizer's vocabulary, without control symbols.
inline std::vector<int32_t> RandomTokens(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(3 + random() % 317));
  return tokens;
}

// The number formats that this CPU runs.
inline std::vector<DType> DTypes() {
  if (kernels::Bf16Supported()) return {DType::kFloat32, DType::kBf16};
  return {DType::kFloat32};
}

// Returns whether position t attends to position p, by docs/model-format.md.
inline bool Attends(const LocalPattern& pattern, int64_t t, int64_t p) {
  const bool dilated =
      pattern.dilation != kNoDilation && p >= t - pattern.span && (p + 1) % pattern.dilation == 0;
  return p <= t && (p >= t - pattern.window || dilated || p < pattern.initial);
}

// Checks for any model without landmarks, whatever its mixers and weights, under each of
// `patterns`.

// Checks a prompt in any split, token by token included.
inline void ExpectAnySplitHasTheSameBits(const CpuModel& model,
                                         const std::vector<LocalPatterns>& patterns) {
  const auto ids = RandomTokens(200, 5);
  for (const LocalPatterns& pattern : patterns) {
    SCOPED_TRACE(pattern.Text());
    const std::vector<float> one_by_one = RunTokens(model, pattern, ids, 1);
    for (const int64_t rows : {5, 33, 64}) {
      EXPECT_EQ(RunTokens(model, pattern, ids, rows), one_by_one) << rows;
    }
  }
}

inline void ExpectStoredStateGoesOn(const CpuModel& model,
                                    const std::vector<LocalPatterns>& patterns) {
  const ModelConfig& config = model.config();
  const auto ids = RandomTokens(150, 6);
  for (const LocalPatterns& pattern : patterns) {
    SCOPED_TRACE(pattern.Text());
    const std::vector<float> whole = RunTokens(model, pattern, ids);
    for (const int64_t cut : {1, 16, 77}) {
      LocalState state = LocalState::Create(config, pattern, config.layers());
      std::vector<float> parts =
          RunTokens(model, pattern, {ids.begin(), ids.begin() + cut}, kBlockRows, &state);
      const std::string bytes = state.Serialize();
      auto copy = LocalState::Deserialize(config, pattern, config.layers(), bytes);
      ASSERT_TRUE(copy.ok()) << copy.status();
      EXPECT_EQ(copy->Serialize(), bytes);
      const std::vector<float> rest =
          RunTokens(model, pattern, {ids.begin() + cut, ids.end()}, kBlockRows, &*copy);
      parts.insert(parts.end(), rest.begin(), rest.end());
      EXPECT_EQ(parts, whole) << cut;
    }
  }
}

// Checks seven sequences, `patterns` in turn, in batches of uneven segments.
inline void ExpectABatchEqualsEachAlone(const CpuModel& model,
                                        const std::vector<LocalPatterns>& patterns) {
  const std::vector<std::vector<int64_t>> steps = {
      {64, 1, 0, 17, 5, 9, 64}, {1, 1, 1, 1, 1, 1, 1}, {1, 64, 64, 1, 3, 20, 1}};
  const ModelConfig& config = model.config();
  kernels::OpContext ctx;
  std::vector<LocalState> together, alone;
  for (size_t i = 0; i < steps[0].size(); ++i) {
    const LocalPatterns& pattern = patterns[i % patterns.size()];
    together.push_back(LocalState::Create(config, pattern, config.layers()));
    alone.push_back(LocalState::Create(config, pattern, config.layers()));
  }
  for (size_t step = 0; step < steps.size(); ++step) {
    int64_t rows = 0;
    for (const int64_t count : steps[step]) rows += count;
    std::vector<float> batched(static_cast<size_t>(rows * config.d));
    model.Embed(RandomTokens(rows, 70 + step), batched.data());
    std::vector<float> single = batched;
    for (int layer = 0; layer < config.layers(); ++layer) {
      std::vector<Segment> segments;
      float* h = single.data();
      for (size_t i = 0; i < together.size(); ++i) {
        segments.push_back({&together[i].layers[layer], steps[step][i], nullptr});
        const Segment segment{&alone[i].layers[layer], steps[step][i], nullptr};
        model.RunLayer(ctx, layer, std::span(&segment, 1), h);
        h += segment.rows * config.d;
      }
      model.RunLayer(ctx, layer, segments, batched.data());
      ASSERT_EQ(batched, single) << "layer " << layer;
    }
  }
}

}  // namespace recollect::model
