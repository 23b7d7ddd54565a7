// Import on the checkpoints of train/hub_fixtures.py: every value of every tensor, and config.json.
#include "convert/import.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/cpu_model.h"
#include "model/weights/safetensors.h"
#include "tests/convert/convert_testing.h"
#include "tests/golden/hub_weights.h"
#include "tests/convert/import_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/tiny_model.h"

namespace recollect::convert {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;

// What a tensor of the model is made of, by published name; the parts follow each other.
std::vector<std::string> PublishedNames(const std::string& name) {
  if (name == "embed.weight") return {"embedding.wte.weight"};
  if (name == "final_norm.weight") return {"backbone.ln.weight"};
  static const std::map<std::string, std::vector<std::string>> kLayer = {
      {"mixer_norm.weight", {"seq_layer.input_norm.weight"}},
      {"mixer.in_proj.weight", {"seq_layer.in_proj.weight", "seq_layer.fgate_proj.weight"}},
      {"mixer.gate_bias", {"seq_layer.gate_bias"}},
      {"mixer.out_proj.weight", {"seq_layer.out_proj.weight"}},
      {"ffn_norm.weight", {"hidden_layer.ln.weight"}},
      {"ffn.in_proj.weight", {"hidden_layer.fc1.weight"}},
      {"ffn.out_proj.weight", {"hidden_layer.fc2.weight"}}};
  const std::string layer = name.substr(0, 9);  // "layers.0."
  std::vector<std::string> names;
  for (const std::string& part : kLayer.at(name.substr(9)))
    names.push_back("backbone." + layer + part);
  return names;
}

class ImportTest : public ImportFixture {
 protected:
  ordered_json Config() const {
    return ordered_json::parse(ReadFile((root_ / "out/config.json").string()));
  }

  // Imports, loads in each number format that this CPU has, and compares.
  void ExpectLoadedFingerprints() const {
    const auto report = Import(options_);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_NE(report->bf16_fingerprint, report->fp32_fingerprint);
    const auto expect = [&](DType dtype, const std::string& fingerprint) {
      const auto model = model::CpuModel::Load(options_.out_dir, dtype);
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ((*model)->fingerprint(), fingerprint);
    };
    expect(DType::kFloat32, report->fp32_fingerprint);
    if (kernels::Bf16Supported()) expect(DType::kBf16, report->bf16_fingerprint);
  }

  // The published names' first `mixer_parts` are in the checkpoint.
  void ExpectWeights(bool coarse, bool bf16, size_t mixer_parts) const {
    const auto file = model::SafetensorsFile::Open((root_ / "out/model.safetensors").string());
    ASSERT_TRUE(file.ok()) << file.status();
    for (const auto& [name, info] : file->tensors()) {
      int64_t size = 1;
      for (const int64_t extent : info.shape) size *= extent;
      std::vector<float> expected;
      std::vector<std::string> names = PublishedNames(name);
      if (names.size() > 1) names.resize(mixer_parts);
      const int64_t d = 8;
      for (size_t i = 0; i < names.size(); ++i) {
        const bool gate = i == 1;
        const int64_t part = gate ? d * d : names.size() == 2 ? 4 * d * d : size;
        for (const float value : HubWeights(names[i], part, coarse)) expected.push_back(value);
      }
      // The only tensors of 3 D rows are attention's: published as v, q, k, here q, k, v.
      if (info.shape.front() == 3 * d)
        std::rotate(expected.begin(), expected.begin() + d * d, expected.end());
      if (bf16) {
        for (float& value : expected) value = RoundToBf16(value);
      }
      EXPECT_EQ(info.dtype, bf16 && options_.type == WeightType::kBf16 ? "BF16" : "F32");
      EXPECT_EQ(*file->ReadFloats(name), expected) << name;
    }
  }
};

TEST_F(ImportTest, RatPlusAsPublished) {
  UseFixture("ratplus.pt");
  options_.out_dir += "/";
  const auto report = Import(options_);
  ASSERT_TRUE(report.ok()) << report.status();
  ExpectWeights(/*coarse=*/false, /*bf16=*/false, 1);
  EXPECT_EQ(Config(), ordered_json::parse(R"({
    "format_version": 1, "architecture": "ratplus", "vocab_size": 400, "unk_id": 0, "eos_id": 2,
    "d": 8, "heads": 4, "head_dim": 2, "ffn": 32, "layers": 2, "context": 4096,
    "rope_base": 10000.0, "norm_eps": 1e-06, "recurrence": true,
    "local": {"window": 0, "dilation": 64, "initial": 0}, "adapted_dilations": [1, 64]})"));
  EXPECT_EQ(ReadFile((root_ / "out/tokenizer.model").string()), ReadFile(kTokenizer));
  EXPECT_EQ(report->config, Config());
  EXPECT_EQ(report->step, 52452);
  EXPECT_EQ(report->tensors, 2 + 2 * 6);
  EXPECT_EQ(report->parameters, 400 * 8 + 8 + 2 * (8 + 40 * 8 + 64 + 8 + 2 * 256));
  EXPECT_EQ(report->bytes, 4 * report->parameters);
  EXPECT_THAT(report->assumptions, ElementsAre("rope_base 10000"));
  EXPECT_EQ(report->sha256.weights.size(), 64u);
  // Readable by whoever may read a new folder.
  EXPECT_NE(fs::status(root_ / "out").permissions() & fs::perms::group_read, fs::perms::none);
}

TEST_F(ImportTest, OlderRatPlusWithGatesApartAndOneValueALayer) {
  UseFixture("ratplus_older_wonly.pth");
  options_.type = WeightType::kBf16;
  const auto report = Import(options_);
  ASSERT_TRUE(report.ok()) << report.status();
  ExpectWeights(false, /*bf16=*/true, 2);
  const ordered_json config = Config();
  EXPECT_EQ(config["recurrence"], true);
  EXPECT_EQ(config["context"], 2048);
  EXPECT_EQ(config["local"],
            ordered_json::parse(R"({"window": [0, 1024], "dilation": [16, -1], "initial": 4})"));
  EXPECT_EQ(config["adapted_dilations"], ordered_json::parse("[16]"));
  EXPECT_EQ(report->bytes, 2 * report->parameters);
}

TEST_F(ImportTest, BaselineWithoutGatesInOneBf16Storage) {
  UseFixture("dense.pt");
  const auto report = Import(options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Config()["recurrence"], false);
  const auto file = model::SafetensorsFile::Open((root_ / "out/model.safetensors").string());
  std::vector<float> expected;
  for (float value : HubWeights("backbone.layers.1.seq_layer.in_proj.weight", 4 * 64))
    expected.push_back(RoundToBf16(value));
  expected.resize(5 * 64, 0.0f);  // gates that are never read
  EXPECT_EQ(*file->ReadFloats("layers.1.mixer.in_proj.weight"), expected);
  EXPECT_THAT(file->tensors().at("layers.1.mixer.in_proj.weight").shape, ElementsAre(40, 8));
}

TEST_F(ImportTest, RatAsPublished) {
  UseFixture("rat.pt");
  options_.plan.family = HubFamily::kRat;
  const auto report = Import(options_);
  ASSERT_TRUE(report.ok()) << report.status();
  ExpectWeights(false, false, 1);
  EXPECT_EQ(Config(), ordered_json::parse(R"({
    "format_version": 1, "architecture": "rat", "vocab_size": 400, "unk_id": 0, "eos_id": 2,
    "d": 8, "heads": 4, "head_dim": 2, "ffn": 32, "layers": 2, "context": 4096,
    "rope_base": 10000.0, "norm_eps": 1e-06, "ffn_kind": "gelu", "rope_pairs": "half",
    "mixers": [{"kind": "rat", "chunk": 16, "shared_heads": 2, "positions": "rope"}]})"));
  EXPECT_EQ(report->tensors, 2 + 2 * 7);
  EXPECT_THAT(report->assumptions, ElementsAre("norm_eps 1e-06", "rope_pairs half"));
}

TEST_F(ImportTest, HybridAsPublished) {
  UseFixture("rat_swa.pt");
  options_.plan.family = HubFamily::kRat;
  const auto report = Import(options_);
  ASSERT_TRUE(report.ok()) << report.status();
  ExpectWeights(false, false, 1);
  EXPECT_EQ(Config(), ordered_json::parse(R"({
    "format_version": 1, "architecture": "rat-swa", "vocab_size": 400, "unk_id": 0, "eos_id": 2,
    "d": 8, "heads": 4, "head_dim": 2, "ffn": 32, "layers": 4, "context": 4096,
    "rope_base": 10000.0, "norm_eps": 1e-06, "ffn_kind": "gelu", "rope_pairs": "half",
    "mixers": [{"kind": "rat", "chunk": 4, "shared_heads": 2, "positions": "rope"},
               {"kind": "attention", "window": 5, "positions": "rope"}]})"));
  const auto file = model::SafetensorsFile::Open((root_ / "out/model.safetensors").string());
  EXPECT_FALSE(file->tensors().contains("layers.1.mixer.gate_bias"));
  EXPECT_THAT(file->tensors().at("layers.2.mixer.in_proj.weight").shape, ElementsAre(32, 8));
  EXPECT_THAT(file->tensors().at("layers.3.mixer.in_proj.weight").shape, ElementsAre(24, 8));
}

// The last rows of train/hub_fixtures.py, which reads the published rows by itself.
TEST_F(ImportTest, HybridComputesWhatTheOracleDoes) {
  UseFixture("rat_swa.pt");
  options_.plan.family = HubFamily::kRat;
  ASSERT_TRUE(Import(options_).ok());
  const auto model = model::CpuModel::Load((root_ / "out").string());
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string oracle = RECOLLECT_SOURCE_DIR "/tests/golden/hub/rat_swa";
  const auto sequence = ordered_json::parse(ReadFile(oracle + ".json"));
  auto ids = sequence["ids"].get<std::vector<int32_t>>();
  for (const int32_t id : sequence["generated"]) ids.push_back(id);
  const auto file = model::SafetensorsFile::Open(oracle + ".safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<float> expected = *file->ReadFloats("logits");
  const std::vector<float> logits = RunTokens(**model, (*model)->config().local, ids);
  ASSERT_EQ(expected.size(), 8u * 400u);
  ASSERT_EQ(logits.size(), ids.size() * 400);
  double scale = 0, error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    scale = std::max<double>(scale, std::abs(expected[i]));
    error = std::max<double>(error,
                             std::abs(expected[i] - logits[logits.size() - expected.size() + i]));
  }
  EXPECT_LE(error, 1e-5 * scale);
}

// Of weights in either format, with patterns by layer and with mixers.
TEST_F(ImportTest, FingerprintsAreThoseOfTheLoadedModel) {
  UseFixture("ratplus_older_wonly.pth");
  for (const WeightType type : {WeightType::kBf16, WeightType::kF32}) {
    options_.type = type;
    options_.out_dir = (root_ / (type == WeightType::kBf16 ? "bf16" : "fp32")).string();
    ExpectLoadedFingerprints();
  }
  fs::remove(root_ / "in/ratplus_older_wonly.pth");
  UseFixture("rat_swa.pt");
  options_.plan.family = HubFamily::kRat;
  options_.out_dir = (root_ / "hybrid").string();
  ExpectLoadedFingerprints();
}

TEST_F(ImportTest, HybridOfWeightsAloneSaysWhatItAssumed) {
  UseFixture("rat_swa.bin");
  options_.plan.family = HubFamily::kRat;
  options_.plan.head_dim = 2;
  options_.plan.chunk = 16;
  const auto report = Import(options_);
  ASSERT_TRUE(report.ok()) << report.status();
  ExpectWeights(/*coarse=*/true, false, 1);
  const ordered_json config = Config();
  EXPECT_EQ(config["architecture"], "rat-swa");
  EXPECT_EQ(config["mixers"], ordered_json::parse(R"([
    {"kind": "rat", "chunk": 16, "shared_heads": 2, "positions": "rope"},
    {"kind": "attention", "window": 1024, "positions": "rope"}])"));
  EXPECT_THAT(report->assumptions,
              ElementsAre("the checkpoint has no configuration; sizes come from the shapes",
                          "context 4096", "rope_base 10000", "norm_eps 1e-06", "ffn_kind gelu",
                          "rope_pairs half", "positions rope", "window 1024"));
}

TEST_F(ImportTest, WithoutConfigurationShapesTell) {
  Use(TinyRatPlus());
  options_.plan.head_dim = 2;
  const auto report = Import(options_);
  ASSERT_TRUE(report.ok()) << report.status();
  const ordered_json config = Config();
  EXPECT_EQ(config["d"], 4);
  EXPECT_EQ(config["heads"], 2);
  EXPECT_EQ(config["ffn"], 16);
  EXPECT_EQ(config["layers"], 2);
  EXPECT_EQ(config["adapted_dilations"], ordered_json::parse("[1]"));
  EXPECT_THAT(report->assumptions, ::testing::Contains("local.dilation 1"));
  EXPECT_THAT(report->assumptions, ::testing::Contains("recurrence true: there are gates"));
}

}  // namespace
}  // namespace recollect::convert
