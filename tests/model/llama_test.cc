// Models of the family llama from the files in which they are published.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/cpu_model.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"
#include "model/text/words.h"
#include "model/weights/gguf.h"
#include "model/weights/safetensors.h"
#include "tests/model/model_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using nlohmann::json;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class LlamaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    WriteTinyLlama(hub_);
  }
  std::string File(const std::string& name) const { return directory_ + "/" + name; }
  std::string Gguf(GgufTensorType type) const {
    const std::string path = File(absl::StrCat(static_cast<int>(type), ".gguf"));
    WriteGguf(hub_, path, type);
    return path;
  }
  static std::vector<float> Logits(const std::string& path, DType dtype,
                                   const std::vector<int32_t>& tokens) {
    const auto model = CpuModel::Load(path, dtype);
    EXPECT_THAT(model, IsOk());
    return model.ok() ? RunTokens(**model, (*model)->config().local, tokens, 64)
                      : std::vector<float>();
  }

  const std::string directory_ = Directory("files");
  const std::string hub_ = directory_ + "/hub";
  const std::vector<int32_t> tokens_ = {900, 17, 3000, 4, 4, 1234, 77, 2048, 99, 3};
};

// ‖a - b‖ / ‖b‖.
double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    error += std::pow(a[i] - b[i], 2);
    norm += std::pow(b[i], 2);
  }
  return std::sqrt(error / norm);
}

// The rows of Q and K have another order there, so the sums do, too.
TEST_F(LlamaTest, AGgufFileComputesWhatTheOracleDoes) {
  for (const char* name : {"llama", "llama_untied", "llama_scaled"}) {
    const std::string golden = absl::StrCat(SourceDir(), "/tests/golden/families/", name);
    const auto expected = SafetensorsFile::Open(golden + "/case.safetensors");
    ASSERT_THAT(expected, IsOk());
    const json input = json::parse(ReadFile(golden + "/case.json"));
    WriteGguf(golden, File("golden.gguf"));
    const auto logits = Logits(File("golden.gguf"), DType::kFloat32,
                               input["events"][0]["tokens"].get<std::vector<int32_t>>());
    EXPECT_LE(Distance(logits, *expected->ReadFloats("logits")), 1e-5) << name;
  }
}

TEST_F(LlamaTest, DirectoryAndFileAreTheSameModel) {
  const std::string path = Gguf(GgufTensorType::kF32);
  const auto hub = CpuModel::Load(hub_);
  const auto gguf = CpuModel::Load(path);
  ASSERT_THAT(hub, IsOk());
  ASSERT_THAT(gguf, IsOk());
  EXPECT_LE(
      Distance(Logits(path, DType::kFloat32, tokens_), Logits(hub_, DType::kFloat32, tokens_)),
      1e-5);
  EXPECT_EQ((*gguf)->parameters(), (*hub)->parameters());
  EXPECT_NE((*gguf)->fingerprint(), (*hub)->fingerprint());
  EXPECT_EQ(*(*gguf)->tokenizer()->Encode("the whale, 1851"),
            *(*hub)->tokenizer()->Encode("the whale, 1851"));
  // A directory with one such file, and a name without an extension.
  const std::string folder = File("one");
  std::filesystem::create_directories(folder);
  std::filesystem::copy(path, folder + "/model.gguf");
  std::filesystem::copy(path, File("plain"));
  for (const std::string& other : {folder, File("plain")}) {
    const auto model = CpuModel::Load(other);
    ASSERT_THAT(model, IsOk());
    EXPECT_EQ((*model)->fingerprint(), (*gguf)->fingerprint());
  }
  std::filesystem::copy(path, folder + "/other.gguf");
  EXPECT_THAT(CpuModel::Load(folder), StatusIs(kInvalid, "several models, name one of"));
}

// The blocks hold rounded weights; what is compared is how they are multiplied.
TEST_F(LlamaTest, FormatsOfProductsStayNearFp32) {
  for (const GgufTensorType type : {GgufTensorType::kQ8_0, GgufTensorType::kQ4_1}) {
    const std::string path = Gguf(type);
    const auto exact = Logits(path, DType::kFloat32, tokens_);
    const double quantized = Distance(Logits(path, DType::kQuantized, tokens_), exact);
    std::printf("%s: quantized %.4f\n", path.c_str(), quantized);
    EXPECT_LE(quantized, 0.03);
    EXPECT_GT(quantized, 0);
    if (kernels::Bf16Supported()) {
      EXPECT_LE(Distance(Logits(path, DType::kBf16, tokens_), exact), 0.03);
    }
  }
  // 4 bits lose much, but not the model.
  EXPECT_LE(Distance(Logits(Gguf(GgufTensorType::kQ4_1), DType::kFloat32, tokens_),
                     Logits(hub_, DType::kFloat32, tokens_)),
            0.6);
}

TEST_F(LlamaTest, BlocksStayBlocksInMemory) {
  const auto fp32 = CpuModel::Load(Gguf(GgufTensorType::kF32));
  const std::string path = Gguf(GgufTensorType::kQ8_0);
  const auto blocks = CpuModel::Load(path, DType::kQuantized);
  ASSERT_THAT(fp32, IsOk());
  ASSERT_THAT(blocks, IsOk());
  const int64_t words = (*fp32)->words()->bytes();  // the same in both
  EXPECT_LT((*blocks)->weight_bytes() - words,
            ((*fp32)->weight_bytes() - words) * 0.3);  // 8.5 bits of 32
  EXPECT_EQ((*blocks)->parameters(), (*fp32)->parameters());
  EXPECT_EQ(*CpuModel::FastestDType(path), DType::kQuantized);
  const DType others = kernels::Bf16Supported() ? DType::kBf16 : DType::kFloat32;
  EXPECT_EQ(*CpuModel::FastestDType(hub_), others);
  EXPECT_EQ(*CpuModel::FastestDType(Gguf(GgufTensorType::kBF16)), others);
  EXPECT_THAT(CpuModel::Load(hub_, DType::kQuantized),
              StatusIs(kInvalid, "dtype quantized, but no tensor is in blocks"));
}

// An embedding in any format gives the numbers that its file has.
TEST_F(LlamaTest, EmbeddingRowsAreThoseOfTheFile) {
  for (const GgufTensorType type : {GgufTensorType::kF32, GgufTensorType::kBF16,
                                    GgufTensorType::kQ8_0, GgufTensorType::kQ4_1}) {
    const std::string path = Gguf(type);
    const auto model = CpuModel::Load(path);
    ASSERT_THAT(model, IsOk());
    const auto file = GgufFile::Open(path);
    ASSERT_THAT(file, IsOk());
    const std::vector<float> rows = *file->ReadFloats("token_embd.weight");
    std::vector<float> h(64);
    for (const int32_t id : {0, 17, 4095}) {
      (*model)->Embed({&id, 1}, h.data());
      EXPECT_EQ(h, std::vector(rows.begin() + id * 64, rows.begin() + (id + 1) * 64)) << id;
    }
  }
}

TEST_F(LlamaTest, TensorsAreReportedByTheNamesOfTheFile) {
  GgufWriter writer = GgufOf(hub_);
  std::erase_if(writer.tensors, [](const auto& t) { return t.name == "blk.1.attn_k.weight"; });
  for (GgufWriterTensor& tensor : writer.tensors) {
    if (tensor.name == "blk.0.ffn_up.weight") tensor.shape = {64, 96};
  }
  writer.AddFloats("blk.0.attn_q.bias", {64}, std::vector<float>(64));
  WriteFile(File("bad.gguf"), writer.Bytes());
  const auto status = CpuModel::Load(File("bad.gguf"));
  for (const char* problem : {"bad.gguf: ", "blk.1.attn_k.weight is missing, expected [32, 64]",
                              "blk.0.ffn_up.weight is [64, 96], the config expects [96, 64]",
                              "blk.0.attn_q.bias [64] is not a tensor of this config"}) {
    EXPECT_THAT(status, StatusIs(kInvalid, problem));
  }
  json config = TinyLlamaConfig();
  config["num_hidden_layers"] = 3;
  WriteFile(hub_ + "/config.json", config.dump());
  EXPECT_THAT(CpuModel::Load(hub_),
              StatusIs(kInvalid, "model.layers.2.self_attn.v_proj.weight is missing"));
}

// In two files with an index, as large checkpoints come.
TEST_F(LlamaTest, WeightsMayBeInSeveralFiles) {
  const auto whole = CpuModel::Load(hub_);
  ASSERT_THAT(whole, IsOk());
  const std::string one = hub_ + "/model.safetensors";
  std::map<std::string, FloatTensor> halves[2];
  json map = json::object();
  {
    const auto file = SafetensorsFile::Open(one);
    ASSERT_THAT(file, IsOk());
    for (const auto& [name, info] : file->tensors()) {
      const size_t half = map.size() % 2;
      halves[half][name] = {info.shape, *file->ReadFloats(name)};
      map[name] = absl::StrCat("part-", half, ".safetensors");
    }
  }
  std::filesystem::remove(one);
  for (size_t i = 0; i < 2; ++i) {
    WriteSafetensors(absl::StrCat(hub_, "/part-", i, ".safetensors"), halves[i]);
  }
  WriteFile(hub_ + "/model.safetensors.index.json", json({{"weight_map", map}}).dump());
  EXPECT_EQ(Logits(hub_, DType::kFloat32, tokens_),
            RunTokens(**whole, (*whole)->config().local, tokens_, 64));
  const std::string before = (*CpuModel::Load(hub_))->fingerprint();
  halves[1].begin()->second.values[0] += 1;
  WriteSafetensors(hub_ + "/part-1.safetensors", halves[1]);
  EXPECT_NE((*CpuModel::Load(hub_))->fingerprint(), before);
}

TEST_F(LlamaTest, ATiedHeadMayBeInTheFileTwice) {
  json config = TinyLlamaConfig();
  config["tie_word_embeddings"] = true;
  WriteFile(hub_ + "/config.json", config.dump());  // lm_head.weight is there, and not read
  EXPECT_THAT(CpuModel::Load(hub_), IsOk());
}

TEST_F(LlamaTest, NumbersThatAreNotFiniteAreRefused) {
  for (const GgufTensorType type :
       {GgufTensorType::kBF16, GgufTensorType::kQ8_0, GgufTensorType::kQ4_1}) {
    for (const char* name : {"blk.0.attn_v.weight", "token_embd.weight"}) {
      GgufWriter writer = GgufOf(hub_, type);
      for (GgufWriterTensor& tensor : writer.tensors) {
        if (tensor.name == name) tensor.data[0] = '\0', tensor.data[1] = '\x7f';
        if (tensor.name == name && type == GgufTensorType::kBF16) tensor.data[0] = '\x80';
        if (tensor.name == name && type != GgufTensorType::kBF16) tensor.data[1] = '\x7c';
      }
      WriteFile(File("bad.gguf"), writer.Bytes());
      const bool blocks = type != GgufTensorType::kBF16;
      for (const DType dtype : {DType::kFloat32, DType::kQuantized}) {
        if (dtype == DType::kQuantized && !blocks) continue;
        EXPECT_THAT(CpuModel::Load(File("bad.gguf"), dtype),
                    StatusIs(kInvalid, "expected a finite number"))
            << name << " " << DTypeName(dtype);
      }
    }
  }
}

TEST_F(LlamaTest, KnowsWhereTextsAndTurnsBeginAndEnd) {
  for (const std::string& path : {hub_, Gguf(GgufTensorType::kF32)}) {
    const auto model = Model::Load(path);
    ASSERT_THAT(model, IsOk());
    EXPECT_EQ((*model)->begin_token(), std::nullopt);
    ASSERT_NE((*model)->chat_template(), nullptr) << (*model)->chat_template_status();
    EXPECT_EQ((*model)->chat_template()->name(), "chatml");
    EXPECT_TRUE((*model)->config().Ends(2));  // <|im_end|>
    EXPECT_TRUE((*model)->config().Ends(0));  // <|endoftext|>, which the template ends with, too
    EXPECT_FALSE((*model)->config().Ends(1));
  }
  json settings = json::parse(ReadFile(hub_ + "/tokenizer_config.json"));
  settings["add_bos_token"] = true;
  settings["chat_template"] = "{{ what nobody knows }}";
  WriteFile(hub_ + "/tokenizer_config.json", settings.dump());
  const auto model = Model::Load(hub_);
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ((*model)->begin_token(), 1);
  EXPECT_EQ((*model)->chat_template(), nullptr);
  EXPECT_THAT((*model)->chat_template_status(), StatusIs(kInvalid, "--chat-template"));
}

TEST_F(LlamaTest, AnEmbeddingMayHaveMoreRowsThanTokens) {
  json config = TinyLlamaConfig();
  config["vocab_size"] = 4100;
  WriteTinyLlama(hub_, config);
  const auto model = Model::Load(hub_);
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ((*model)->tokenizer()->vocab_size(), 4100);
  EXPECT_EQ((*model)->tokenizer()->TokenBytes(4099), "");
  config["vocab_size"] = 4000;
  WriteTinyLlama(hub_, config);
  EXPECT_THAT(Model::Load(hub_), StatusIs(kInvalid, "4096 tokens, the embedding has 4000 rows"));
}

TEST_F(LlamaTest, PatternsAreAnybodysAndOnlyFullAttentionHasAnEnd) {
  const auto model = Model::Load(hub_);
  ASSERT_THAT(model, IsOk());
  const ModelConfig& config = (*model)->config();
  EXPECT_EQ(config.PositionLimit(config.local), 128);
  EXPECT_EQ(config.PositionLimit(config.local.WithContext(50)), 50);
  EXPECT_THAT(ValidatePatterns(config, config.local.WithContext(50)), IsOk());
  EXPECT_THAT(ValidatePatterns(config, config.local.WithContext(129)),
              StatusIs(kInvalid, "context is 129, the checkpoint was trained with 128"));
  const LocalPatterns stream =
      LocalPattern{.window = 31, .dilation = kNoDilation, .initial = 4, .span = kUnboundedSpan};
  EXPECT_THAT(ValidatePatterns(config, stream), IsOk());
  EXPECT_EQ(config.PositionLimit(stream), 0);
  const LocalPatterns by_head(
      std::vector<HeadPatterns>{{config.local.layer(0)[0], config.local.layer(0)[0],
                                 *stream.everywhere(), *stream.everywhere()},
                                {config.local.layer(0)[0]}});
  EXPECT_THAT(ValidatePatterns(config, by_head), StatusIs(kInvalid, "4 heads share 2 key-value"));
}

// A window with initial positions keeps what it says, on and on.
TEST_F(LlamaTest, AWindowForgetsWhatIsBetween) {
  const auto model = CpuModel::Load(hub_);
  ASSERT_THAT(model, IsOk());
  const LocalPatterns stream =
      LocalPattern{.window = 8, .dilation = kNoDilation, .initial = 2, .span = kUnboundedSpan};
  std::vector<int32_t> tokens(200);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(37 * i % 4000 + 3);
  const auto last = [&](const std::vector<int32_t>& of) {
    const std::vector<float> logits = RunTokens(**model, stream, of, 64);
    return std::vector(logits.end() - 4096, logits.end());
  };
  std::vector<int32_t> changed = tokens;
  changed[100] = 5;  // two layers reach back 16 positions
  EXPECT_EQ(last(changed), last(tokens));
  changed[1] = 5;
  EXPECT_NE(last(changed), last(tokens));
}

}  // namespace
}  // namespace recollect::model
