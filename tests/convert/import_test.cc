// Import on the checkpoints of train/hub_fixtures.py: every value of every tensor, config.json, and
// the mistakes a user can make.
#include "convert/import.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/safetensors.h"
#include "tests/convert/convert_testing.h"
#include "tests/convert/hub_weights.h"
#include "tests/support/tiny_model.h"

namespace recollect::convert {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kTokenizer[] = RECOLLECT_SOURCE_DIR "/tests/support/llama_tokenizer.model";

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

class ImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / "recollect_import" /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_ / "in");
    fs::copy_file(kTokenizer, root_ / "in" / "tokenizer.model");
    options_.from_dir = (root_ / "in").string();
    options_.out_dir = (root_ / "out").string();
    options_.plan.family = HubFamily::kRatPlus;
    options_.type = WeightType::kF32;
  }
  void TearDown() override { fs::remove_all(root_); }

  void UseFixture(const std::string& name) const {
    fs::copy_file(fs::path(RECOLLECT_SOURCE_DIR "/tests/convert/hub") / name, root_ / "in" / name);
  }
  void Use(const std::vector<TestTensor>& tensors, const std::string& config = "") const {
    WriteCheckpoint((root_ / "in/a.pt").string(), tensors, config);
  }
  ordered_json Config() const {
    return ordered_json::parse(ReadFile((root_ / "out/config.json").string()));
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
  void ExpectNothingLeft() const {
    EXPECT_FALSE(fs::exists(root_ / "out"));
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_))
      names.push_back(entry.path().filename());
    EXPECT_THAT(names, ElementsAre("in"));
  }
  void ExpectError(absl::StatusCode code, const std::vector<std::string>& fragments) const {
    const auto report = Import(options_);
    EXPECT_EQ(report.status().code(), code) << report.status();
    for (const std::string& fragment : fragments)
      EXPECT_THAT(std::string(report.status().message()), HasSubstr(fragment));
    ExpectNothingLeft();
  }

  fs::path root_;
  ImportOptions options_;
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
  EXPECT_EQ(report->weights_sha256.size(), 64u);
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

TEST_F(ImportTest, ReportsAllThatIsWrongAtOnce) {
  options_.plan.head_dim = 2;
  std::vector<TestTensor> tensors = TinyRatPlus();
  tensors.erase(tensors.begin() + 1);       // layer 0's mixer norm
  tensors[1].shape = {4, 20};               // its in_proj
  tensors[3].storage_class = "IntStorage";  // its ffn norm
  tensors[2].strides = {1, 4};              // its out_proj
  tensors.push_back({"backbone.rope", {2}, {1, 2}, "", "FloatStorage", {}});
  tensors.push_back({"\x1b]0;title", {1}, {1}, "", "FloatStorage", {}});
  tensors.push_back(tensors[4]);
  tensors.back().name = "backbone._orig_mod.layers.0.hidden_layer.fc1.weight";
  const std::string config = "}" + PickleText("model") + "}" + PickleText("backbone") + "}(" +
                             PickleText("num_layers") + "K\x03" + PickleText("d_model") + "K\x08" +
                             PickleText("ln") + PickleText("layernorm") + PickleText("seq_cell") +
                             "}" + PickleText("dilation_size") +
                             "](K\x01K\x02"
                             "esuss";
  Use(tensors, config);
  ExpectError(
      absl::StatusCode::kInvalidArgument,
      {"problems: ", "backbone.layers.0.seq_layer.input_norm.weight is missing, expected shape [4]",
       "backbone.layers.0.seq_layer.in_proj.weight has shape [4, 20], expected [20, 4]",
       "backbone.layers.0.hidden_layer.ln.weight is int32, expected float32",
       "backbone.layers.0.seq_layer.out_proj.weight is not contiguous: strides [1, 4]",
       "backbone.rope [2] is left over", "\\x1b]0;title [1] is left over",
       "backbone.layers.0.hidden_layer.fc1.weight appears twice",
       "backbone.layers.2.hidden_layer.fc2.weight is missing",
       "d_model is 8 in the configuration, 4 in the shapes",
       "config.model.backbone.ln is \"layernorm\", expected \"rmsnorm\"",
       "2 values of dilation, expected one or 3"});
}

TEST_F(ImportTest, RefusesImpossibleSizes) {
  Use(TinyRatPlus());
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"head_dim is 128, expected an even divisor of the width 4", "--head-dim"});
  Use({});
  ExpectError(absl::StatusCode::kInvalidArgument, {"no model of these sizes: 0 layers"});
  options_.plan.family = HubFamily::kRat;
  options_.plan.head_dim = 2;
  Use(TinyRatPlus());
  ExpectError(absl::StatusCode::kInvalidArgument, {"gate_bias is missing", "--chunk"});
  WriteZip((root_ / "in/a.pt").string(), {{"a/data.pkl", "K\x01."}});
  ExpectError(absl::StatusCode::kInvalidArgument, {"the file holds an int, expected a dict"});
  WriteZip((root_ / "in/a.pt").string(), {{"a/data.pkl", "}" + PickleText("task") + "Ns."}});
  ExpectError(absl::StatusCode::kInvalidArgument, {"the file holds None under \"task\""});
}

TEST_F(ImportTest, RatNeedsARatLayerAndItsPositions) {
  options_.plan.family = HubFamily::kRat;
  options_.plan.head_dim = 2;
  options_.plan.chunk = 16;
  std::vector<TestTensor> tensors = TinyRatPlus();
  for (TestTensor& tensor : tensors) {
    if (tensor.shape == std::vector<int64_t>{20, 4}) {
      tensor.shape = {12, 4};
      tensor.values.resize(48);
    }
  }
  Use(tensors, "}" + PickleText("model") + "}(" + PickleText("backbone") + "}" +
                   PickleText("embedding") + "}" + PickleText("pe") + "}" + PickleText("_name_") +
                   PickleText("interrope") + "ssus");
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"2 problems: ", "no layer has a gate_bias, expected at least one RAT layer",
               "pe._name_ is \"interrope\", expected \"rope_interrope\""});
}

TEST_F(ImportTest, RatPlusWithoutItsGatesIsRefused) {
  options_.plan.head_dim = 2;
  std::vector<TestTensor> tensors = TinyRatPlus();
  tensors[2].shape = {16, 4};
  tensors[2].values.resize(64);
  Use(tensors, "}" + PickleText("model") + "}" + PickleText("backbone") + "}" +
                   PickleText("seq_cell") + "}" + PickleText("apply_re") + "\x88ssss");
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"backbone.layers.0.seq_layer.fgate_proj.weight is missing"});
}

TEST_F(ImportTest, TheHeadMustBeTheEmbedding) {
  options_.plan.head_dim = 2;
  std::vector<TestTensor> tensors = TinyRatPlus();
  tensors.back().storage = "own";
  Use(tensors);
  EXPECT_TRUE(Import(options_).ok());  // a copy with equal bytes
  fs::remove_all(root_ / "out");
  tensors.back().values[17] += 1.0f;
  Use(tensors);
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"head.lm_head.weight is not embedding.wte.weight: they differ at value 17"});
  tensors.pop_back();
  Use(tensors);
  ExpectError(absl::StatusCode::kInvalidArgument, {"head.lm_head.weight is missing"});
}

TEST_F(ImportTest, WeightsMustBeFinite) {
  options_.plan.head_dim = 2;
  std::vector<TestTensor> tensors = TinyRatPlus();
  tensors[3].values[5] = std::numeric_limits<float>::quiet_NaN();
  Use(tensors);
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"layers.0.mixer.out_proj.weight: value 5 is nan"});
}

TEST_F(ImportTest, RefusesWhatItCannotTellApart) {
  ExpectError(absl::StatusCode::kNotFound, {"no checkpoint (.pt, .pth, .ckpt, .bin)"});
  UseFixture("ratplus.pt");
  UseFixture("rat_swa.bin");
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"2 checkpoints, expected one: rat_swa.bin, ratplus.pt"});
  options_.from_dir += "/none";
  ExpectError(absl::StatusCode::kNotFound, {"in/none"});
}

TEST_F(ImportTest, TheTokenizerMustFit) {
  UseFixture("ratplus.pt");
  const fs::path tokenizer = root_ / "in/tokenizer.model";
  fs::remove(tokenizer);
  ExpectError(absl::StatusCode::kNotFound, {"tokenizer.model: not there", "LLaMA"});
  WriteFile(tokenizer.string(), "not a model");
  ExpectError(absl::StatusCode::kInvalidArgument, {"tokenizer.model: not a SentencePiece model"});
  fs::copy_file(RECOLLECT_SOURCE_DIR "/tests/support/tiny_tokenizer.model", tokenizer,
                fs::copy_options::overwrite_existing);
  ExpectError(absl::StatusCode::kInvalidArgument, {"has 320 pieces, the embedding 400 rows"});
}

TEST_F(ImportTest, NeverWritesOverAnything) {
  UseFixture("ratplus.pt");
  fs::create_directories(root_ / "out");
  EXPECT_TRUE(Import(options_).ok());  // an empty folder is free
  const auto again = Import(options_);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
  options_.out_dir = (root_ / "in/ratplus.pt").string();
  EXPECT_EQ(Import(options_).status().code(), absl::StatusCode::kAlreadyExists);
  options_.out_dir = (root_ / "in/ratplus.pt/below").string();
  EXPECT_EQ(Import(options_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ImportTest, DamagedWeightsLeaveNothingBehind) {
  UseFixture("ratplus.pt");
  const std::string path = (root_ / "in/ratplus.pt").string();
  std::string bytes = ReadFile(path);
  const std::vector<float> norm = HubWeights("backbone.ln.weight", 8);
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(norm.data()), 32));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  WriteFile(path, bytes);
  ExpectError(absl::StatusCode::kDataLoss, {"ratplus.pt: final_norm.weight", "CRC"});
}

TEST_F(ImportTest, CanBeInterrupted) {
  UseFixture("ratplus.pt");
  int64_t seen = 0;
  options_.progress = [&](int64_t done, int64_t total) {
    EXPECT_GT(done, seen);
    EXPECT_LE(done, total);
    seen = done;
    return done < total / 2;
  };
  ExpectError(absl::StatusCode::kCancelled, {"nothing is left"});
}

}  // namespace
}  // namespace recollect::convert
