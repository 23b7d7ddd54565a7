// Models with landmarks against their PyTorch oracles: the flagship on the cases of
// tests/golden/models, DRT as published on those of tests/golden/families (tests/golden/README.md
// has the format).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/gemm.h"
#include "model/model.h"
#include "model/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/support/reference_sequence.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

// fp32: of the largest |logit| of a row.
constexpr double kLogitTolerance = 1e-3;
constexpr double kScoreTolerance = 1e-3;
// bf16 products: ‖error‖ / ‖logits‖ over a whole case, at most 0.009 when this was set; and the
// share of equal hits, for which two near scores may swap places at the cut.
constexpr double kBf16Tolerance = 0.02;
constexpr double kBf16HitShare = 0.9;
// One step of bf16, relative; and what counts as zero beside numbers of unit size.
constexpr double kBf16Step = 0x1p-7;
constexpr double kBf16Floor = 1e-4;

const char kFolder[] = RECOLLECT_SOURCE_DIR "/tests/golden/";

// Folders of cases. One that goes missing must fail, not shrink the test.
std::vector<std::string> Cases() {
  std::set<std::string> cases;
  for (const char* name :
       {"base", "bypass", "carry", "deep_group", "dense", "grouped_heads", "no_memory_yet",
        "no_recurrence", "one_candidate", "shipped", "wide_heads"}) {
    cases.insert(absl::StrCat("models/", name));
  }
  for (const char* name : {"", "_64", "_add", "_as_flagship", "_cls", "_flushes", "_layers",
                           "_ordinary_softmax", "_projections", "_reads_own", "_rope", "_start"}) {
    cases.insert(absl::StrCat("families/drt_paper", name));
  }
  for (const std::string parent : {"models", "families"}) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder + parent, ignored)) {
      const std::string name = entry.path().filename();
      if (!entry.is_directory() || (parent == "families" && !name.starts_with("drt_"))) continue;
      cases.insert(absl::StrCat(parent, "/", name));
    }
  }
  return {cases.begin(), cases.end()};
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  // The case computed in `dtype`; nothing on failure.
  void Run(DType dtype) {
    const std::string folder = absl::StrCat(kFolder, GetParam());
    ASSERT_TRUE(std::filesystem::exists(folder + "/case.json"))
        << folder << " is missing; tests/golden/README.md says what writes it";
    const nlohmann::json input = nlohmann::json::parse(ReadFile(folder + "/case.json"));
    const std::string model_folder =
        input.contains("model")
            ? absl::StrCat(RECOLLECT_SOURCE_DIR, "/", input["model"].get<std::string>())
            : folder;
    auto model = Model::Load(model_folder, {.dtype = dtype});
    ASSERT_TRUE(model.ok()) << model.status();
    auto file = SafetensorsFile::Open(folder + "/case.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    model_ = *std::move(model);
    file_ = std::make_unique<SafetensorsFile>(*std::move(file));
    const ModelConfig& config = model_->config();
    SequenceLayout layout(config);
    for (const auto& event : input["events"]) {
      event.contains("flush") ? layout.Flush() : layout.Add(event["tokens"]);
    }
    ASSERT_EQ(layout.ids(), Integers("ids"));
    const bool flagship = config.architecture == "drt";
    ASSERT_EQ(layout.landmarks(), Integers(flagship ? "block_starts" : "landmarks"));
    landmarks_ = layout.landmarks().size();
    closed_blocks_ = layout.blocks().size() - 1;
    ReferenceInput reference{.pattern = config.local, .blocks = layout.blocks()};
    for (const auto& document : input["documents"]) {
      mounted_.push_back(IngestReference(*model_, document.get<std::vector<int32_t>>()));
    }
    reference.mounted = mounted_;
    result_ = RunReference(*model_, reference);
    for (const int64_t rows : {1, 17}) {  // a prompt in any split
      reference.rows_per_call = rows;
      ASSERT_EQ(RunReference(*model_, reference).logits, result_.logits) << rows;
    }
    if (input.contains("logit_rows")) KeepLogits(input["logit_rows"]);
  }

  // Cases of a large vocabulary hold the logits of some positions only.
  void KeepLogits(const std::vector<size_t>& rows) {
    const size_t width = static_cast<size_t>(model_->config().vocab_size);
    std::vector<float> kept;
    for (const size_t row : rows) {
      const float* begin = result_.logits.data() + row * width;
      kept.insert(kept.end(), begin, begin + width);
    }
    result_.logits = std::move(kept);
  }

  std::vector<int32_t> Integers(const std::string& name) const {
    const auto found = file_->tensors().find(name);
    if (found == file_->tensors().end() || found->second.dtype != "I32") {
      ADD_FAILURE() << "no int32 tensor " << name;
      return {};
    }
    std::vector<int32_t> values(static_cast<size_t>(found->second.bytes) / sizeof(int32_t));
    std::memcpy(values.data(), found->second.data, values.size() * sizeof(int32_t));
    return values;
  }

  std::vector<float> Floats(const std::string& name) const {
    const auto values = file_->ReadFloats(name);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? *values : std::vector<float>();
  }

  // `count` chunks against the tensors under `prefix`.
  void CompareChunks(const std::string& prefix, const std::vector<EncodedChunk>& chunks,
                     size_t count) const {
    SCOPED_TRACE(prefix);
    const size_t d = static_cast<size_t>(model_->config().d);
    const size_t d_r = static_cast<size_t>(model_->config().d_r);
    const std::vector<int32_t> rows = Integers(prefix + ".rows");
    const std::vector<float> keys = Floats(prefix + ".keys");
    const std::vector<float> states = Floats(prefix + ".states");
    ASSERT_EQ(rows.size(), count);
    ASSERT_EQ(keys.size(), count * d_r);
    const auto chunk_tokens = static_cast<size_t>(model_->config().chunk_tokens);
    ASSERT_EQ(states.size(), count * chunk_tokens * d);
    for (size_t i = 0; i < count; ++i) {
      SCOPED_TRACE(i);
      ASSERT_EQ(chunks[i].rows, rows[i]);
      CompareBf16(chunks[i].landmark_key, keys.data() + i * d_r);
      CompareBf16(chunks[i].states, states.data() + i * chunk_tokens * d);
    }
  }

  static void CompareBf16(const std::vector<Bf16>& actual, const float* expected) {
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i].ToFloat(), expected[i], kBf16Step * std::abs(expected[i]) + kBf16Floor)
          << "element " << i;
    }
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<SafetensorsFile> file_;
  size_t landmarks_ = 0, closed_blocks_ = 0;
  std::vector<std::vector<EncodedChunk>> mounted_;
  ReferenceResult result_;
};

TEST_P(GoldenTest, Fp32EqualsTheOracle) {
  ASSERT_NO_FATAL_FAILURE(Run(DType::kFloat32));
  const ModelConfig& config = model_->config();
  for (size_t i = 0; i < mounted_.size(); ++i) {
    CompareChunks(absl::StrCat("doc.", i), mounted_[i], mounted_[i].size());
  }
  CompareChunks("own", result_.chunks, closed_blocks_);

  const std::vector<int32_t> hits = Integers("hits");
  const std::vector<float> scores = Floats("hit_scores");
  const size_t n_ret = static_cast<size_t>(config.n_ret);
  ASSERT_EQ(hits.size(), config.groups.size() * landmarks_ * n_ret);
  for (size_t g = 0; g < config.groups.size(); ++g) {
    for (size_t b = 0; b < landmarks_; ++b) {
      const auto& found = result_.hits[g][b];
      for (size_t i = 0; i < n_ret; ++i) {
        const size_t at = (g * landmarks_ + b) * n_ret + i;
        ASSERT_EQ(i < found.size() ? found[i].candidate : -1, hits[at])
            << "group " << g << " landmark " << b;
        if (i >= found.size()) continue;
        EXPECT_NEAR(found[i].score, scores[at], kScoreTolerance * (1 + std::abs(scores[at])));
      }
    }
  }

  const std::vector<float> logits = Floats("logits");
  ASSERT_EQ(result_.logits.size(), logits.size());
  const size_t width = static_cast<size_t>(config.vocab_size);
  double worst = 0;
  for (size_t row = 0; row * width < logits.size(); ++row) {
    double scale = 0;
    for (size_t j = 0; j < width; ++j)
      scale = std::max<double>(scale, std::abs(logits[row * width + j]));
    for (size_t j = 0; j < width; ++j) {
      const double error =
          std::abs(result_.logits[row * width + j] - logits[row * width + j]) / scale;
      worst = std::max(worst, error);
      ASSERT_LE(error, kLogitTolerance) << "row " << row << " logit " << j;
    }
  }
  RecordProperty("largest_relative_error", absl::StrCat(worst));
  std::printf("%s fp32: largest error %.2e of a row's largest logit\n", GetParam().c_str(), worst);
}

TEST_P(GoldenTest, Bf16StaysNearTheOracle) {
  if (!kernels::Bf16Supported()) GTEST_SKIP() << "this CPU has no bf16 products";
  ASSERT_NO_FATAL_FAILURE(Run(DType::kBf16));
  const std::vector<float> logits = Floats("logits");
  ASSERT_EQ(result_.logits.size(), logits.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    error += std::pow(result_.logits[i] - logits[i], 2);
    norm += std::pow(logits[i], 2);
  }
  size_t hits = 0, kept = 0;
  const std::vector<int32_t> expected = Integers("hits");
  size_t at = 0;
  for (const auto& group : result_.hits) {
    for (const auto& block : group) {
      const std::set<int32_t> wanted(
          expected.begin() + static_cast<std::ptrdiff_t>(at),
          expected.begin() + static_cast<std::ptrdiff_t>(at) + model_->config().n_ret);
      at += static_cast<size_t>(model_->config().n_ret);
      hits += block.size();
      for (const auto& hit : block) kept += wanted.contains(static_cast<int32_t>(hit.candidate));
    }
  }
  std::printf("%s bf16: %.4f relative, hits %zu of %zu\n", GetParam().c_str(),
              std::sqrt(error / norm), kept, hits);
  EXPECT_LE(std::sqrt(error / norm), kBf16Tolerance);
  EXPECT_GE(static_cast<double>(kept), kBf16HitShare * static_cast<double>(hits));
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTest, ::testing::ValuesIn(Cases()), [](const auto& param) {
  return param.param.substr(param.param.find('/') + 1);
});

}  // namespace
}  // namespace recollect::model
