#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/cpu_model.h"
#include "model/text/words.h"
#include "tests/model/model_testing.h"
#include "tests/support/reference_sequence.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Blocks of mixed lengths, as flushes leave them.
std::vector<std::vector<int32_t>> MixedBlocks(uint64_t seed) {
  std::vector<std::vector<int32_t>> blocks;
  for (const int64_t length : {63, 1, 63, 17, 63, 40, 2, 63, 9})
    blocks.push_back(RandomTokens(length, seed++));
  return blocks;
}

ModelConfig WithPattern(LocalPattern pattern) {
  ModelConfig config = TinyConfig();
  config.local = pattern;
  return config;
}

TEST(ModelLoadTest, ReportsWhatItHolds) {
  const auto model = Make("holds", TinyConfig());
  int64_t parameters = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Directory("holds"))) {
    if (entry.path().filename() == "model.safetensors")
      parameters = static_cast<int64_t>(entry.file_size()) / 4;
  }
  EXPECT_NEAR(static_cast<double>(model->parameters()), static_cast<double>(parameters), 2000);
  EXPECT_GE(model->weight_bytes(), model->parameters() * 4);
  EXPECT_NE(model->tokenizer(), nullptr);
  EXPECT_EQ(model->fingerprint().size(), 64u);
  EXPECT_EQ(model->config().layers(), 5);
}

TEST(ModelLoadTest, ConfigAndWeightsThatDisagreeNameBothShapes) {
  WriteTinyModel(Directory("shapes"), TinyConfig(), 1);
  ModelConfig config = TinyConfig();
  config.ffn = 56;
  config.groups[1].gca_layers = {1};
  config.memory_key_recurrence = false;
  WriteFile(Directory("shapes") + "/config.json", ConfigJson(config));
  const absl::Status status = CpuModel::Load(Directory("shapes")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("layers.0.ffn.in_proj.weight is [96, 32], the config expects [112, 32]"),
            HasSubstr("layers.4.gca.q_proj.weight is missing, expected [32, 32]"),
            HasSubstr("layers.3.gca.q_proj.weight [32, 32] is not a tensor of this config"),
            HasSubstr("memory.gate_proj.weight [32, 32] is not a tensor of this config")));
}

TEST(ModelLoadTest, RefusesADirectoryWithoutFiles) {
  EXPECT_EQ(CpuModel::Load(Directory("none")).status().code(), absl::StatusCode::kNotFound);
  std::filesystem::create_directories(Directory("half"));
  WriteFile(Directory("half") + "/config.json", ConfigJson(TinyConfig()));
  EXPECT_EQ(CpuModel::Load(Directory("half")).status().code(), absl::StatusCode::kNotFound);
}

TEST(ModelLoadTest, RefusesATokenizerOfAnotherVocabulary) {
  WriteTinyModel(Directory("vocabulary"), TinyConfig(), 1);
  const std::string tokenizer = ReadFile(Directory("vocabulary") + "/tokenizer.model");
  ModelConfig config = TinyConfig();
  config.vocab_size = 400;
  WriteTinyModel(Directory("vocabulary"), config, 1);
  WriteFile(Directory("vocabulary") + "/tokenizer.model", tokenizer);
  EXPECT_THAT(std::string(CpuModel::Load(Directory("vocabulary")).status().message()),
              HasSubstr("tokenizer.model: 320 pieces, vocab_size is 400"));
  config.vocab_size = 320;
  config.eos_id = 300;
  WriteTinyModel(Directory("vocabulary"), config, 1);
  EXPECT_THAT(std::string(CpuModel::Load(Directory("vocabulary")).status().message()),
              AllOf(HasSubstr("tokenizer.model: piece 300 (eos_id) is \""),
                    HasSubstr("expected a control symbol")));
}

TEST(ModelLoadTest, DocumentsThatAreKeptAsTextNeedATokenizer) {
  ModelConfig config = TinyRatPlusConfig();
  config.KeepText();
  WriteTinyModel(Directory("text"), config, 1);
  const auto model = Model::Load(Directory("text"));
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_NE((*model)->words(), nullptr);
  EXPECT_EQ((*model)->words()->tokens(), config.vocab_size);
  std::filesystem::remove(Directory("text") + "/tokenizer.model");
  EXPECT_THAT(std::string(Model::Load(Directory("text")).status().message()),
              HasSubstr("documents is \"text\", but there is no "));
  WriteTinyModel(Directory("prefixes"), TinyRatPlusConfig(), 1);
  EXPECT_EQ((*Model::Load(Directory("prefixes")))->words(), nullptr);
}

TEST(ModelLoadTest, RefusesBlocksOfSentencesWithoutATokenizer) {
  ModelConfig config = TinyConfig();
  config.min_chunk_tokens = 24;
  WriteTinyModel(Directory("sentences"), config, 1);
  EXPECT_TRUE(CpuModel::Load(Directory("sentences")).ok());
  std::filesystem::remove(Directory("sentences") + "/tokenizer.model");
  EXPECT_THAT(std::string(CpuModel::Load(Directory("sentences")).status().message()),
              AllOf(HasSubstr("config.json: min_chunk_tokens is 24, but there is no "),
                    HasSubstr("/tokenizer.model to say where sentences end")));
}

TEST(ModelLoadTest, RefusesWeightsThatAreNotFinite) {
  WriteTinyModel(Directory("nan"), TinyConfig(), 1);
  std::string bytes = ReadFile(Directory("nan") + "/model.safetensors");
  for (size_t i = bytes.size() - 4; i < bytes.size(); ++i) bytes[i] = '\xff';
  WriteFile(Directory("nan") + "/model.safetensors", bytes);
  EXPECT_THAT(std::string(CpuModel::Load(Directory("nan")).status().message()),
              HasSubstr("expected a finite number"));
}

TEST(ModelLoadTest, FingerprintChangesWithEveryPart) {
  const std::string base = Make("fingerprint", TinyConfig())->fingerprint();
  EXPECT_EQ(Make("fingerprint", TinyConfig())->fingerprint(), base);
  ModelConfig config = TinyConfig();
  config.n_ret = 5;
  EXPECT_NE(Make("fingerprint", config)->fingerprint(), base);
  WriteTinyModel(Directory("fingerprint"), TinyConfig(), 2);
  EXPECT_NE(CpuModel::Load(Directory("fingerprint")).value()->fingerprint(), base);
  WriteTinyModel(Directory("fingerprint"), TinyConfig(), 1);
  std::filesystem::remove(Directory("fingerprint") + "/tokenizer.model");
  EXPECT_NE(CpuModel::Load(Directory("fingerprint")).value()->fingerprint(), base);
  if (kernels::Bf16Supported()) {
    EXPECT_NE(Make("fingerprint", TinyConfig(), DType::kBf16)->fingerprint(), base);
  }
}

TEST(ModelLoadTest, Bf16IsRefusedWhereTheCpuLacksIt) {
  if (kernels::Bf16Supported()) GTEST_SKIP() << "this CPU has bf16 products";
  WriteTinyModel(Directory("bf16"), TinyConfig(), 1);
  EXPECT_EQ(CpuModel::Load(Directory("bf16"), DType::kBf16).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Every switch of the config that changes the computation.
std::vector<std::pair<std::string, ModelConfig>> Variants() {
  std::vector<std::pair<std::string, ModelConfig>> variants = {{"plain", TinyConfig()}};
  const auto add = [&](const std::string& name, const std::function<void(ModelConfig&)>& change) {
    variants.emplace_back(name, TinyConfig());
    change(variants.back().second);
  };
  add("bypass", [](ModelConfig& c) { c.gca_residual = GcaResidual::kBypass; });
  add("no_recurrence", [](ModelConfig& c) { c.recurrence = c.memory_key_recurrence = false; });
  add("grouped_heads", [](ModelConfig& c) { c.memory_kv_heads = 1; });
  add("deep_encoder", [](ModelConfig& c) { c.encoder_layers = 2; });
  add("no_carry", [](ModelConfig& c) { c.encoder_carry = false; });
  add("initial", [](ModelConfig& c) {
    c.local = LocalPattern{.window = 20, .dilation = 8, .initial = 5, .span = 100};
  });
  add("odd_sizes", [](ModelConfig& c) {
    c.d = 36;
    c.heads = 3;
    c.head_dim = 10;
    c.memory_kv_heads = 3;
    c.ffn = 50;
    c.d_r = 20;
  });
  return variants;
}

void ExpectSame(const ReferenceResult& a, const ReferenceResult& b) {
  EXPECT_EQ(a.logits, b.logits);
  EXPECT_EQ(a.hits, b.hits);
  EXPECT_EQ(a.state.Serialize(), b.state.Serialize());
  ASSERT_EQ(a.chunks.size(), b.chunks.size());
  for (size_t i = 0; i < a.chunks.size(); ++i) {
    EXPECT_EQ(a.chunks[i].landmark_key, b.chunks[i].landmark_key);
    EXPECT_EQ(a.chunks[i].states, b.chunks[i].states);
  }
}

TEST(ModelTest, PrefillInAnySplitEqualsOnePass) {
  for (const auto& [name, config] : Variants()) {
    for (const DType dtype : DTypes()) {
      SCOPED_TRACE(name + (dtype == DType::kBf16 ? " bf16" : " fp32"));
      const auto model = Make("split_" + name, config, dtype);
      ReferenceInput input{.pattern = config.local,
                           .blocks = MixedBlocks(5),
                           .mounted = {IngestReference(*model, RandomTokens(200, 9))}};
      const ReferenceResult whole = RunReference(*model, input);
      for (const int64_t rows : {1, 5, 33}) {
        input.rows_per_call = rows;
        ExpectSame(RunReference(*model, input), whole);
      }
    }
  }
}

TEST(ModelTest, BatchOfSequencesEqualsEachAlone) {
  for (const auto& [name, config] : Variants()) {
    for (const DType dtype : DTypes()) {
      SCOPED_TRACE(name + (dtype == DType::kBf16 ? " bf16" : " fp32"));
      const auto model = Make("batch_" + name, config, dtype);
      const std::vector<EncodedChunk> chunks = IngestReference(*model, RandomTokens(300, 9));
      kernels::OpContext ctx;
      std::vector<Memory> memories;
      for (const EncodedChunk& chunk : chunks)
        memories.push_back(model->ProjectMemory(ctx, chunk.states, chunk.rows));
      const Retrieved two{{memories[0].view(), memories[4].view()}, {0.75f, 0.25f}};
      const Retrieved one{{memories[2].view()}, {1.0f}};
      const Retrieved* const retrieved[] = {&two, nullptr, &one, nullptr, &two};
      constexpr int kSequences = 5;
      std::vector<LocalState> together, alone;
      for (int i = 0; i < kSequences; ++i) {
        together.push_back(LocalState::Create(config, config.local, config.layers()));
        alone.push_back(LocalState::Create(config, config.local, config.layers()));
      }
      const std::vector<std::vector<int64_t>> steps = {
          {64, 1, 0, 17, 5}, {1, 1, 1, 1, 1}, {1, 64, 64, 1, 3}};
      for (size_t step = 0; step < steps.size(); ++step) {
        int64_t rows = 0;
        for (const int64_t count : steps[step]) rows += count;
        std::vector<float> batched(static_cast<size_t>(rows * config.d));
        model->Embed(RandomTokens(rows, 70 + step), batched.data());
        std::vector<float> single = batched;
        for (int layer = 0; layer < config.layers(); ++layer) {
          const bool memory = layer >= config.n_low;
          std::vector<Segment> segments;
          float* h = single.data();
          for (int i = 0; i < kSequences; ++i) {
            const Retrieved* read = memory ? retrieved[i] : nullptr;
            segments.push_back({&together[i].layers[layer], steps[step][i], read});
            const Segment segment{&alone[i].layers[layer], steps[step][i], read};
            model->RunLayer(ctx, layer, std::span(&segment, 1), h);
            h += segment.rows * config.d;
          }
          model->RunLayer(ctx, layer, segments, batched.data());
          ASSERT_EQ(batched, single) << "layer " << layer;
        }
      }
      for (int i = 0; i < kSequences; ++i) EXPECT_EQ(together[i].Serialize(), alone[i].Serialize());
    }
  }
}

TEST(ModelTest, StateReadBackContinuesWithTheSameBits) {
  const ModelConfig config = WithPattern({.window = 30, .dilation = 8, .initial = 2, .span = 100});
  const auto model = Make("continue", config);
  kernels::OpContext ctx;
  LocalState state = LocalState::Create(config, config.local, config.n_low);
  LocalState copy = LocalState::Create(config, config.local, config.n_low);
  for (int step = 0; step < 12; ++step) {
    std::vector<float> expected(static_cast<size_t>(29 * config.d));
    model->Embed(RandomTokens(29, 100 + step), expected.data());
    std::vector<float> actual = expected;
    for (int layer = 0; layer < config.n_low; ++layer) {
      const Segment one{&state.layers[layer], 29, nullptr};
      model->RunLayer(ctx, layer, std::span(&one, 1), expected.data());
      const Segment other{&copy.layers[layer], 29, nullptr};
      model->RunLayer(ctx, layer, std::span(&other, 1), actual.data());
    }
    ASSERT_EQ(actual, expected);
    const std::string bytes = copy.Serialize();
    EXPECT_EQ(bytes, state.Serialize());
    copy = LocalState::Deserialize(config, config.local, config.n_low, bytes).value();
  }
}

// Dilation 1 inside a span is the dense window of that span.
TEST(ModelTest, DilationOneEqualsADenseWindow) {
  const ModelConfig dense = WithPattern({.window = 256, .dilation = 16, .initial = 0, .span = 256});
  const ModelConfig dilated =
      WithPattern({.window = 127, .dilation = 1, .initial = 0, .span = 256});
  const auto blocks = FullBlocks(RandomTokens(600, 3));
  const auto model = Make("dense", dense);
  const ReferenceResult expected = RunReference(*model, {.pattern = dense.local, .blocks = blocks});
  const ReferenceResult actual = RunReference(*model, {.pattern = dilated.local, .blocks = blocks});
  ASSERT_EQ(actual.logits.size(), expected.logits.size());
  for (size_t i = 0; i < actual.logits.size(); ++i)
    ASSERT_NEAR(actual.logits[i], expected.logits[i], 2e-3);
}

TEST(ModelTest, MemoryChangesTheAnswerFromTheSecondBlockOn) {
  const ModelConfig config = TinyConfig();
  const auto model = Make("memory", config);
  ReferenceInput input{.pattern = config.local, .blocks = FullBlocks(RandomTokens(150, 3))};
  const ReferenceResult without = RunReference(*model, input);
  input.mounted = {IngestReference(*model, RandomTokens(500, 4))};
  const ReferenceResult with = RunReference(*model, input);
  const auto first = static_cast<std::ptrdiff_t>(kBlockRows * config.vocab_size);
  EXPECT_TRUE(std::equal(with.logits.begin(), with.logits.begin() + first, without.logits.begin()));
  EXPECT_FALSE(std::equal(with.logits.begin() + first,
                          with.logits.begin() + first + config.vocab_size,
                          without.logits.begin() + first));
  EXPECT_TRUE(with.hits[0][0].empty());
  EXPECT_EQ(with.hits[0][1].size(), 4u);
  EXPECT_TRUE(without.hits[0][1].empty());
  EXPECT_EQ(without.hits[1][2].size(), 1u);
}

}  // namespace
}  // namespace recollect::model
