// The mistakes a user of Import can make: each is named, and nothing stays behind.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "convert/import.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/convert/convert_testing.h"
#include "tests/golden/hub_weights.h"
#include "tests/convert/import_testing.h"
#include "tests/support/tiny_model.h"

namespace recollect::convert {
namespace {

class ImportErrorsTest : public ImportFixture {};

TEST_F(ImportErrorsTest, ReportsAllThatIsWrongAtOnce) {
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

// One name stands for thousands of layers that are missing.
TEST_F(ImportErrorsTest, ThousandsOfProblemsMakeAShortMessage) {
  std::vector<TestTensor> tensors = TinyRatPlus();
  tensors.push_back({"backbone.layers.4000.rope", {1}, {1}, "", "FloatStorage", {}});
  Use(tensors);
  ExpectError(absl::StatusCode::kInvalidArgument, {" problems: ", "; and so on"});
  EXPECT_LT(Import(options_).status().message().size(), 10000u);
}

TEST_F(ImportErrorsTest, RefusesImpossibleSizes) {
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

TEST_F(ImportErrorsTest, RatNeedsARatLayerAndItsPositions) {
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

TEST_F(ImportErrorsTest, RatPlusWithoutPositionsIsRefused) {
  options_.plan.head_dim = 2;
  const auto use = [&](const std::string& positions) {
    Use(TinyRatPlus(), "}" + PickleText("model") + "}(" + PickleText("backbone") + "}" +
                           PickleText("embedding") + "}" + PickleText("pe") + "}" +
                           PickleText("_name_") + PickleText(positions) + "ssus");
  };
  use("empty");
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"embedding.pe._name_ is \"empty\", expected \"rope\""});
  use("rope");
  EXPECT_TRUE(Import(options_).ok());
}

TEST_F(ImportErrorsTest, FilesOfOtherKindsAreNamed) {
  const std::string path = (root_ / "in/a.pt").string();
  // What torch.save of PyTorch 1.5 begins with: its magic number as a pickle.
  WriteFile(path, std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15));
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"a.pt: a pickle, as torch.save wrote before PyTorch 1.6, 15 bytes", "expected"});
  WriteFile(path, "GGUF, say");
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"a.pt: neither zip nor pickle, 9 bytes; expected the zip file"});
  WriteFile(path, "");
  ExpectError(absl::StatusCode::kDataLoss, {"a.pt: the file is empty: 0 bytes"});
}

TEST_F(ImportErrorsTest, RatPlusWithoutItsGatesIsRefused) {
  options_.plan.head_dim = 2;
  std::vector<TestTensor> tensors = TinyRatPlus();
  tensors[2].shape = {16, 4};
  tensors[2].values.resize(64);
  Use(tensors, "}" + PickleText("model") + "}" + PickleText("backbone") + "}" +
                   PickleText("seq_cell") + "}" + PickleText("apply_re") + "\x88ssss");
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"backbone.layers.0.seq_layer.fgate_proj.weight is missing"});
}

// Numbers that fit the tensors, but that no model is loaded with.
TEST_F(ImportErrorsTest, RefusesAConfigThatWouldNotLoad) {
  options_.plan.head_dim = 2;
  const std::string pe = PickleText("pe") + "}" + PickleText("base") + PickleInt(0) + "s";
  const std::string cell =
      PickleText("seq_cell") + "}" + PickleText("dilation_size") + PickleInt(0) + "s";
  Use(TinyRatPlus(), "}" + PickleText("model") + "}(" + PickleText("backbone") + "}" + cell + "s" +
                         PickleText("embedding") + "}" + pe + "sus");
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"a.pt: config.json to write: ", "local.dilation is 0, expected -1 for none, or 1 to",
               "rope_base is 0.0, expected a number from 1 to"});
}

TEST_F(ImportErrorsTest, TheHeadMustBeTheEmbedding) {
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

TEST_F(ImportErrorsTest, WeightsMustBeFinite) {
  options_.plan.head_dim = 2;
  std::vector<TestTensor> tensors = TinyRatPlus();
  tensors[3].values[5] = std::numeric_limits<float>::quiet_NaN();
  Use(tensors);
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"layers.0.mixer.out_proj.weight: value 5 is nan"});
}

TEST_F(ImportErrorsTest, RefusesWhatItCannotTellApart) {
  ExpectError(absl::StatusCode::kNotFound, {"no checkpoint (.pt, .pth, .ckpt, .bin)"});
  UseFixture("ratplus.pt");
  UseFixture("rat_swa.bin");
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"2 checkpoints, expected one: rat_swa.bin, ratplus.pt"});
  options_.from_dir += "/none";
  ExpectError(absl::StatusCode::kNotFound, {"in/none"});
}

TEST_F(ImportErrorsTest, TheTokenizerMustFit) {
  UseFixture("ratplus.pt");
  const fs::path tokenizer = root_ / "in/tokenizer.model";
  fs::remove(tokenizer);
  ExpectError(absl::StatusCode::kNotFound, {"tokenizer.model: not there", "LLaMA"});
  WriteFile(tokenizer.string(), "not a model");
  ExpectError(absl::StatusCode::kInvalidArgument, {"tokenizer.model: not a SentencePiece model"});
  fs::copy_file(RECOLLECT_SOURCE_DIR "/tests/support/tiny_tokenizer.model", tokenizer,
                fs::copy_options::overwrite_existing);
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"in/tokenizer.model: 320 pieces, vocab_size is 400"});
}

TEST_F(ImportErrorsTest, NeverWritesOverAnything) {
  UseFixture("ratplus.pt");
  fs::create_directories(root_ / "out");
  EXPECT_TRUE(Import(options_).ok());  // an empty folder is free
  const auto again = Import(options_);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
  options_.out_dir = (root_ / "in/ratplus.pt").string();
  EXPECT_EQ(Import(options_).status().code(), absl::StatusCode::kAlreadyExists);
  for (const char* below_a_file : {"in/ratplus.pt/below", "in/ratplus.pt/below/that"}) {
    options_.out_dir = (root_ / below_a_file).string();
    const absl::Status status = Import(options_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("cannot be made"));
  }
}

TEST_F(ImportErrorsTest, AFolderThatCannotBeReplacedIsRefusedBeforeAnyWork) {
  UseFixture("ratplus.pt");
  fs::create_directories(root_ / "elsewhere");
  fs::create_directory_symlink(root_ / "elsewhere", root_ / "out");
  const auto link = Import(options_);
  EXPECT_EQ(link.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(link.status().message()), ::testing::HasSubstr("out cannot be replaced"));
  options_.out_dir = "";
  EXPECT_EQ(Import(options_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ImportErrorsTest, WeightsThatBf16CannotHoldAreNamed) {
  options_.plan.head_dim = 2;
  options_.type = WeightType::kBf16;
  std::vector<TestTensor> tensors = TinyRatPlus();
  tensors[3].values[0] = std::numeric_limits<float>::max();
  Use(tensors);
  ExpectError(absl::StatusCode::kInvalidArgument,
              {"out_proj", "3.40282e+38 is too large for bf16"});
}

TEST_F(ImportErrorsTest, DictsOfSomethingElseGiveAShortMessage) {
  std::vector<TestTensor> tensors;
  for (int i = 0; i < 3000; ++i) {
    tensors.push_back({"same", {1}, {1}, "", "FloatStorage", {}});
  }
  tensors.push_back({std::string(100000, 'x'), {1}, {1}, "", "FloatStorage", {}});
  Use(tensors);
  const auto report = Import(options_);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_LT(report.status().message().size(), size_t{100000});
  EXPECT_THAT(std::string(report.status().message()), ::testing::HasSubstr("and so on"));
  tensors.erase(tensors.begin(), tensors.end() - 1);
  Use(tensors);
  ExpectError(absl::StatusCode::kInvalidArgument, {"a name of 100000 bytes, expected at most 512"});
}

TEST_F(ImportErrorsTest, DamagedWeightsLeaveNothingBehind) {
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

TEST_F(ImportErrorsTest, CanBeInterrupted) {
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

TEST_F(ImportErrorsTest, WhatAKilledImportLeftIsClearedAndARunningOneIsNot) {
  UseFixture("ratplus.pt");
  const auto work_folders = [&] {
    int folders = 0;
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
      folders += entry.path().filename().string().find(".importing-") != std::string::npos;
    }
    return folders;
  };
  const pid_t child = fork();
  if (child == 0) {
    options_.progress = [](int64_t, int64_t) -> bool { _exit(9); };
    Import(options_).IgnoreError();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 9);
  EXPECT_EQ(work_folders(), 1);

  ImportOptions inner = options_;
  bool begun = false;
  options_.progress = [&](int64_t, int64_t) {
    if (!begun) {
      begun = true;
      EXPECT_TRUE(Import(inner).ok());
      EXPECT_EQ(work_folders(), 1) << "of the import that waits for this one";
    }
    return true;
  };
  const auto outer = Import(options_);
  EXPECT_TRUE(begun);
  EXPECT_EQ(outer.status().code(), absl::StatusCode::kFailedPrecondition) << outer.status();
  EXPECT_EQ(work_folders(), 0);
}

}  // namespace
}  // namespace recollect::convert
