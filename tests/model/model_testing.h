// What the tests of whole models share: tiny models on disk, random tokens.
#ifndef RECOLLECT_TESTS_MODEL_MODEL_TESTING_H_
#define RECOLLECT_TESTS_MODEL_MODEL_TESTING_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/gemm.h"
#include "model/model.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {

// Of the test that runs: tests of several programs may run at a time.
inline std::string Directory(const std::string& name) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(::testing::TempDir(), "/", test->test_suite_name(), "_", test->name(), "_",
                      name);
}

// Null, with a failure, when the model cannot be loaded.
inline std::unique_ptr<Model> Make(const std::string& name, const ModelConfig& config,
                                   DType dtype = DType::kFloat32) {
  WriteTinyModel(Directory(name), config, 1);
  auto model = Model::Load(Directory(name), {.dtype = dtype});
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

// Of the tiny tokenizer's vocabulary, control symbols left out.
inline std::vector<int32_t> RandomTokens(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(3 + random() % 317));
  return tokens;
}

// The number formats this CPU runs.
inline std::vector<DType> DTypes() {
  if (kernels::Bf16Supported()) return {DType::kFloat32, DType::kBf16};
  return {DType::kFloat32};
}

}  // namespace recollect::model

#endif  // RECOLLECT_TESTS_MODEL_MODEL_TESTING_H_
