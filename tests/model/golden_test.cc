// Models with landmarks against their PyTorch oracles: the flagship on the cases of
// tests/golden/models, DRT as published on those of tests/golden/families (tests/golden/README.md
// has the format).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/op_context.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/cpu_model.h"
#include "model/device/device_model.h"
#include "model/weights/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/kernels/device/test_device.h"
#include "tests/model/device/device_functions.h"
#include "tests/model/oracle_case.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

// fp32, given the oracle's chunks: of the largest |logit| of a row, at most 5.3e-6 when this was
// set; of a score, 9.4e-7.
constexpr double kLogitTolerance = 1e-5;
constexpr double kScoreTolerance = 1e-5;
// The share of a case's stored numbers that another order of summation rounds to bf16 the other
// way, at most 3.4e-4 when this was set.
constexpr double kRoundedOtherwise = 2e-3;
// bf16 products: ‖error‖ / ‖logits‖ over a whole case, at most 0.009 when this was set; and the
// share of equal hits, for which two near scores may swap places at the cut: from there on rows
// read another chunk, nearly as relevant, and a case may be off by more; 0.037 when this was set.
constexpr double kBf16Tolerance = 0.02;
constexpr double kBf16OtherHitsTolerance = 0.05;
constexpr double kBf16HitShare = 0.9;
// One step of bf16, relative; and what counts as zero beside numbers of unit size.
constexpr double kBf16Step = 0x1p-7;
constexpr double kBf16Floor = 1e-5;

const std::string kFolder = SourceDir() + "/tests/golden/";

// Folders of cases. One that goes missing must fail, not shrink the test.
std::vector<std::string> Cases() {
  std::set<std::string> cases;
  for (const char* name :
       {"base", "bypass", "carry", "deep_group", "dense", "grouped_heads", "lexicon",
        "no_memory_yet", "no_recurrence", "one_candidate", "pointer", "shipped", "wide_heads"}) {
    cases.insert(absl::StrCat("models/", name));
  }
  for (const char* name :
       {"", "_64", "_add", "_as_flagship", "_cls", "_encoder_eps", "_flushes", "_layers",
        "_ordinary_softmax", "_projections", "_reads_own", "_rope", "_start", "_three_heads"}) {
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

std::string CaseName(const ::testing::TestParamInfo<std::string>& info) {
  return info.param.substr(info.param.find('/') + 1);
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  // The case computed in `dtype`, on a device where one is given; nothing on failure.
  void Run(DType dtype, kernels::Device* device = nullptr) {
    const std::string folder = absl::StrCat(kFolder, GetParam());
    ASSERT_TRUE(std::filesystem::exists(folder + "/case.json"))
        << folder << " is missing; tests/golden/README.md says what writes it";
    const nlohmann::json input = nlohmann::json::parse(ReadFile(folder + "/case.json"));
    const std::string model_folder =
        input.contains("model") ? absl::StrCat(SourceDir(), "/", input["model"].get<std::string>())
                                : folder;
    auto model = CpuModel::Load(model_folder, dtype);
    ASSERT_TRUE(model.ok()) << model.status();
    auto file = SafetensorsFile::Open(folder + "/case.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    model_ = *std::move(model);
    const ModelConfig& config = model_->config();
    oracle_ = std::make_unique<OracleCase>(config, *std::move(file));
    SequenceLayout layout(config);
    for (const auto& event : input["events"]) {
      event.contains("flush") ? layout.Flush() : layout.Add(event["tokens"]);
    }
    ASSERT_EQ(layout.ids(), oracle_->Integers("ids"));
    const bool flagship = config.architecture == "drt";
    ASSERT_EQ(layout.landmarks(), oracle_->Integers(flagship ? "block_starts" : "landmarks"));
    landmarks_ = layout.landmarks();
    closed_blocks_ = layout.blocks().size() - 1;
    ReferenceInput reference{.pattern = config.local, .blocks = layout.blocks()};
    for (const auto& document : input["documents"]) {
      mounted_.push_back(IngestReference(*model_, document.get<std::vector<int32_t>>()));
    }
    reference.mounted = mounted_;
    if (dtype == DType::kFloat32) {
      // One number of a chunk or its memory that is rounded to bf16 the other way moves logits by
      // up to 2e-3, which would hide what else does.
      for (size_t i = 0; i < mounted_.size(); ++i) {
        reference.mounted[i] = oracle_->Chunks(absl::StrCat("doc.", i));
        for (size_t e = 0; e < mounted_[i].size(); ++e) {
          reference.mounted[i][e].tokens = mounted_[i][e].tokens;
        }
      }
      reference.own = oracle_->Chunks("own");
      ASSERT_EQ(reference.own.size(), closed_blocks_);
      std::vector<int32_t> read;
      for (size_t b = 0; b < closed_blocks_; ++b) {
        read.insert(read.end(), reference.blocks[b].begin(), reference.blocks[b].end());
        EncodedChunk with_tokens{
            .landmark_key = {}, .states = {}, .tokens = {}, .rows = reference.own[b].rows};
        model_->AddTokens(read, with_tokens);
        reference.own[b].tokens = with_tokens.tokens;
      }
      ASSERT_NO_FATAL_FAILURE(oracle_->ReadProjections(model_folder));
      reference.project = [this](const EncodedChunk& chunk) { return oracle_->MemoryOf(chunk); };
    }
    std::unique_ptr<DeviceModel> on_device;
    if (device != nullptr) {
      on_device = LoadGoldenOn(*device, *model_, model_folder);
      refused_ = on_device == nullptr;
      if (refused_) return;
    }
    for (const int64_t rows : {64, 1, 17}) {  // a prompt in any split
      // A device that is the host takes long over the shipped model.
      if (device != nullptr && rows != 64 && input.contains("model")) continue;
      reference.rows_per_call = rows;
      std::optional<DeviceFunctions> functions;
      if (device != nullptr) reference.functions = &functions.emplace(*on_device, config.local);
      ReferenceResult result = RunReference(*model_, reference);
      if (rows == 64) {
        result_ = std::move(result);
      } else {
        ASSERT_EQ(result.logits, result_.logits) << rows;
      }
    }
    const auto rows = result_.logits.size() / static_cast<size_t>(config.vocab_size);
    logit_rows_.resize(rows);
    std::iota(logit_rows_.begin(), logit_rows_.end(), size_t{0});
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
    logit_rows_ = rows;
  }

  // A pointer leaves -infinity in its sentinel's place: so it must be in both, and is 0 from then
  // on.
  void DropSentinels(std::vector<float>& expected) {
    ASSERT_EQ(result_.logits.size(), expected.size());
    if (model_->pointer() == nullptr) return;
    const auto width = static_cast<size_t>(model_->config().vocab_size);
    for (size_t i = static_cast<size_t>(model_->config().unk_id); i < expected.size(); i += width) {
      ASSERT_EQ(expected[i], -std::numeric_limits<float>::infinity()) << i;
      ASSERT_EQ(result_.logits[i], expected[i]) << i;
      result_.logits[i] = expected[i] = 0;
    }
  }

  // The first `count` chunks, and memory of the oracle's, against those under `prefix`.
  void CompareChunks(const std::string& prefix, const std::vector<EncodedChunk>& chunks,
                     size_t count) {
    SCOPED_TRACE(prefix);
    const std::vector<EncodedChunk> expected = oracle_->Chunks(prefix);
    ASSERT_EQ(expected.size(), count);
    for (size_t i = 0; i < count; ++i) {
      SCOPED_TRACE(i);
      ASSERT_EQ(chunks[i].rows, expected[i].rows);
      CompareBf16(chunks[i].landmark_key, expected[i].landmark_key);
      CompareBf16(chunks[i].states, expected[i].states);
      kernels::OpContext ctx;
      const Memory memory = model_->ProjectMemory(ctx, expected[i].states, expected[i].rows);
      const Memory oracles = oracle_->MemoryOf(expected[i]);
      CompareBf16(memory.keys, oracles.keys);
      CompareBf16(memory.values, oracles.values);
    }
  }

  void CompareBf16(const std::vector<Bf16>& actual, const std::vector<Bf16>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const float value = expected[i].ToFloat();
      ASSERT_NEAR(actual[i].ToFloat(), value, kBf16Step * std::abs(value) + kBf16Floor)
          << "element " << i;
      rounded_otherwise_ += actual[i] != expected[i];
    }
    stored_ += static_cast<int>(actual.size());
  }

  void ExpectFp32EqualsTheOracle(kernels::Device* device);
  void ExpectBf16StaysNearTheOracle(kernels::Device* device);

  std::unique_ptr<CpuModel> model_;
  std::unique_ptr<OracleCase> oracle_;
  std::vector<int32_t> landmarks_;  // positions
  size_t closed_blocks_ = 0;
  bool refused_ = false;                    // by the device
  int stored_ = 0, rounded_otherwise_ = 0;  // numbers seen by CompareBf16
  std::vector<std::vector<EncodedChunk>> mounted_;
  ReferenceResult result_;
  std::vector<size_t> logit_rows_;  // positions of the logits in it
};

void GoldenTest::ExpectFp32EqualsTheOracle(kernels::Device* device) {
  ASSERT_NO_FATAL_FAILURE(Run(DType::kFloat32, device));
  const ModelConfig& config = model_->config();
  for (size_t i = 0; i < mounted_.size(); ++i) {
    CompareChunks(absl::StrCat("doc.", i), mounted_[i], mounted_[i].size());
  }
  CompareChunks("own", result_.chunks, closed_blocks_);
  std::printf("%s fp32: %d of %d stored numbers rounded the other way\n", GetParam().c_str(),
              rounded_otherwise_, stored_);
  EXPECT_LE(rounded_otherwise_, kRoundedOtherwise * stored_);

  const std::vector<int32_t> hits = oracle_->Integers("hits");
  const std::vector<float> scores = oracle_->Floats("hit_scores");
  const size_t n_ret = static_cast<size_t>(config.n_ret);
  ASSERT_EQ(hits.size(), config.groups.size() * landmarks_.size() * n_ret);
  for (size_t g = 0; g < config.groups.size(); ++g) {
    for (size_t b = 0; b < landmarks_.size(); ++b) {
      const auto& found = result_.hits[g][b];
      for (size_t i = 0; i < n_ret; ++i) {
        const size_t at = (g * landmarks_.size() + b) * n_ret + i;
        ASSERT_EQ(i < found.size() ? found[i].candidate : -1, hits[at])
            << "group " << g << " landmark " << b;
        if (i >= found.size()) continue;
        EXPECT_NEAR(found[i].score, scores[at], kScoreTolerance * (1 + std::abs(scores[at])));
      }
    }
  }

  std::vector<float> logits = oracle_->Floats("logits");
  ASSERT_NO_FATAL_FAILURE(DropSentinels(logits));
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

void GoldenTest::ExpectBf16StaysNearTheOracle(kernels::Device* device) {
  if (!kernels::Bf16Supported()) GTEST_SKIP() << "this CPU has no bf16 products";
  ASSERT_NO_FATAL_FAILURE(Run(DType::kBf16, device));
  if (refused_) return;
  size_t hits = 0, kept = 0;
  size_t same_rows = std::numeric_limits<size_t>::max();  // before the first other hit
  const std::vector<int32_t> expected = oracle_->Integers("hits");
  auto wanted = expected.begin();
  for (const auto& group : result_.hits) {
    for (size_t b = 0; b < group.size(); ++b, wanted += model_->config().n_ret) {
      const auto is_wanted = [&](const auto& hit) {
        const auto end = wanted + model_->config().n_ret;
        return std::find(wanted, end, static_cast<int32_t>(hit.candidate)) != end;
      };
      const auto found = static_cast<size_t>(std::ranges::count_if(group[b], is_wanted));
      hits += group[b].size();
      kept += found;
      if (found < group[b].size()) {
        same_rows = std::min(same_rows, static_cast<size_t>(landmarks_[b]));
      }
    }
  }
  std::vector<float> logits = oracle_->Floats("logits");
  ASSERT_NO_FATAL_FAILURE(DropSentinels(logits));
  const auto width = static_cast<size_t>(model_->config().vocab_size);
  double error = 0, norm = 0, same_error = 0, same_norm = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    error += std::pow(result_.logits[i] - logits[i], 2);
    norm += std::pow(logits[i], 2);
    if (logit_rows_[i / width] >= same_rows) continue;
    same_error = error;
    same_norm = norm;
  }
  std::printf("%s bf16: %.4f relative, %.4f before another hit, hits %zu of %zu\n",
              GetParam().c_str(), std::sqrt(error / norm), std::sqrt(same_error / same_norm), kept,
              hits);
  EXPECT_LE(std::sqrt(same_error / same_norm), kBf16Tolerance);
  EXPECT_LE(std::sqrt(error / norm), kBf16OtherHitsTolerance);
  EXPECT_GE(static_cast<double>(kept), kBf16HitShare * static_cast<double>(hits));
}

TEST_P(GoldenTest, Fp32EqualsTheOracle) { ExpectFp32EqualsTheOracle(nullptr); }

TEST_P(GoldenTest, Bf16StaysNearTheOracle) { ExpectBf16StaysNearTheOracle(nullptr); }

class DeviceGoldenTest : public GoldenTest {
 protected:
  void SetUp() override { RECOLLECT_SKIP_WITHOUT(device_); }
  const std::shared_ptr<kernels::Device> device_ = kernels::OpenTestDevice();
};

TEST_P(DeviceGoldenTest, Fp32EqualsTheOracle) { ExpectFp32EqualsTheOracle(device_.get()); }

TEST_P(DeviceGoldenTest, Bf16StaysNearTheOracle) { ExpectBf16StaysNearTheOracle(device_.get()); }

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTest, ::testing::ValuesIn(Cases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Cases, DeviceGoldenTest, ::testing::ValuesIn(Cases()), CaseName);

}  // namespace
}  // namespace recollect::model
