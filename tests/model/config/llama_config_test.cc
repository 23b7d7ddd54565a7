// The config of the family llama, from config.json of the Hugging Face layout and from a GGUF file.
#include "model/config/llama_config.h"

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/weights/llama_gguf.h"
#include "tests/model/model_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using nlohmann::json;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::StatusOr<ModelConfig> FromHub(const std::function<void(json&)>& change) {
  json root = TinyLlamaConfig();
  change(root);
  return LlamaConfigFromHub(root);
}

void ExpectProblems(const absl::Status& status, const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, problem));
  }
}

TEST(LlamaConfigTest, ReadsTheHubsKeys) {
  const auto config = FromHub([](json& c) {
    c["head_dim"] = 32;
    c["rope_theta"] = 5e5;
    c["rms_norm_eps"] = 1e-4;
    c["eos_token_id"] = {7, 9};
    c["torch_dtype"] = "bfloat16";  // and whatever else there is
  });
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->d, 64);
  EXPECT_EQ(config->ffn, 96);
  EXPECT_EQ(config->layers(), 2);
  EXPECT_EQ(config->heads, 4);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 32);
  EXPECT_EQ(config->vocab_size, 4096);
  EXPECT_EQ(config->context, 128);
  EXPECT_FALSE(config->tied_head);
  EXPECT_FALSE(config->landmarks());
  EXPECT_EQ(config->rope_base, 5e5);
  EXPECT_EQ(config->rope_pairs, kernels::RopePairs::kHalves);
  EXPECT_THAT(config->rope_divisors, IsEmpty());
  EXPECT_FLOAT_EQ(config->norm_eps, 1e-4f);
  EXPECT_TRUE(config->Ends(7) && config->Ends(9));
  EXPECT_FALSE(config->Ends(2));
  EXPECT_EQ(config->mixer(1).kind, MixerKind::kAttention);
  EXPECT_EQ(config->parts(1).ffn, FfnKind::kSwiGlu);
}

TEST(LlamaConfigTest, WhatTheHubLeavesOutHasItsDefaults) {
  const auto config = FromHub([](json& c) {
    for (const char* key : {"num_key_value_heads", "rope_theta", "tie_word_embeddings",
                            "rms_norm_eps", "hidden_act"}) {
      c.erase(key);
    }
    c["rope_scaling"] = nullptr;
    c["head_dim"] = nullptr;
  });
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->rope_base, 10000);
  EXPECT_FALSE(config->tied_head);
  EXPECT_FLOAT_EQ(config->norm_eps, 1e-6f);
}

TEST(LlamaConfigTest, RefusesWhatIsNotBuiltByName) {
  const auto config = FromHub([](json& c) {
    c["attention_bias"] = true;
    c["mlp_bias"] = true;
    c["hidden_act"] = "gelu";
    c["num_key_value_heads"] = 3;
    c["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}};
    c["quantization_config"] = {{"bits", 4}};
    c["eos_token_id"] = 5000;
  });
  ExpectProblems(
      config.status(),
      {"attention_bias is true, expected false", "mlp_bias is true, expected false",
       "hidden_act is \"gelu\", expected \"silu\"", "3 key-value heads, expected a divisor of 4",
       "rope_scaling.type is \"yarn\"", "quantization_config is set", "id 5000, expected below"});
  ExpectProblems(FromHub([](json& c) { c["model_type"] = "mixtral"; }).status(),
                 {"model_type is \"mixtral\", expected \"llama\""});
  ExpectProblems(FromHub([](json& c) { c.erase("hidden_size"); }).status(),
                 {"hidden_size missing"});
}

// The published LLaMA 3.2: heads of 64, base 500 000.
TEST(LlamaConfigTest, DividesAnglesAsLlama3Does) {
  const Llama3Scaling scaling{
      .factor = 32, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192};
  const std::vector<double> divisors = RopeDivisors(scaling, 500000, 64);
  ASSERT_EQ(divisors.size(), 32u);
  EXPECT_THAT(std::vector(divisors.begin(), divisors.begin() + 15), Each(1.0));
  EXPECT_THAT(std::vector(divisors.begin() + 18, divisors.end()), Each(32.0));
  // Pair 16: 8192 / (2 pi 500000^0.5) = 1.8438 turns; (1.8438 - 1) / 3 of its frequency stays, and
  // a 32nd of the rest.
  const double turns = 8192 / (2 * std::numbers::pi * std::sqrt(500000.0));
  const double kept = (turns - 1) / 3;
  EXPECT_THAT(divisors[16], DoubleNear(1 / (kept + (1 - kept) / 32), 1e-12));
}

TEST(LlamaConfigTest, ReadsScalingInOldAndNewFiles) {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 64}};
  const auto old = FromHub([&](json& c) { c["rope_scaling"] = scaling; });
  const auto fresh = FromHub([&](json& c) {
    c.erase("rope_theta");
    c["rope_parameters"] = scaling;
    c["rope_parameters"]["rope_theta"] = 10000.0;
  });
  ASSERT_THAT(old, IsOk());
  ASSERT_THAT(fresh, IsOk());
  EXPECT_EQ(old->rope_divisors, RopeDivisors({8, 1, 4, 64}, 10000, 16));
  EXPECT_EQ(old->rope_divisors, fresh->rope_divisors);
  const auto linear = FromHub([](json& c) {
    c["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  });
  ASSERT_THAT(linear, IsOk());
  EXPECT_THAT(linear->rope_divisors, Each(4.0));
  const auto upside_down = FromHub([&](json& c) {
    c["rope_scaling"] = scaling;
    c["rope_scaling"]["high_freq_factor"] = 0.5;
  });
  ExpectProblems(upside_down.status(),
                 {"high_freq_factor is 0.5, expected above low_freq_factor 1"});
}

class LlamaGgufTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteTinyLlama(directory_);
    writer_ = GgufOf(directory_);
  }
  absl::StatusOr<ModelConfig> Read() {
    const std::string path = directory_ + "/changed.gguf";
    WriteFile(path, writer_.Bytes());
    auto file = GgufFile::Open(path);
    if (!file.ok()) return file.status();
    return LlamaConfigFromGguf(*file);
  }
  // With what a file says first, since a key stands there once.
  void Rewrite(const std::function<void(GgufWriter&)>& set) {
    GgufWriter writer;
    set(writer);
    writer.tensors = writer_.tensors;
    writer_ = writer;
  }
  static void SetSizes(GgufWriter& writer) {
    writer.Set("llama.block_count", uint32_t{2})
        .Set("llama.context_length", uint32_t{128})
        .Set("llama.embedding_length", uint32_t{64})
        .Set("llama.feed_forward_length", uint32_t{96})
        .Set("llama.attention.head_count", uint32_t{4})
        .Set("llama.attention.layer_norm_rms_epsilon", 1e-5f)
        .Set("tokenizer.ggml.eos_token_id", uint32_t{2});
  }

  const std::string directory_ = Directory("files");
  GgufWriter writer_;
};

TEST_F(LlamaGgufTest, SaysTheSameAsTheDirectory) {
  const auto config = Read();
  ASSERT_THAT(config, IsOk());
  const auto hub = LlamaConfigFromHub(TinyLlamaConfig());
  ASSERT_THAT(hub, IsOk());
  EXPECT_EQ(config->vocab_size, hub->vocab_size);
  EXPECT_EQ(config->kv_heads, hub->kv_heads);
  EXPECT_EQ(config->head_dim, hub->head_dim);
  EXPECT_EQ(config->context, hub->context);
  EXPECT_EQ(config->norm_eps, hub->norm_eps);
  EXPECT_EQ(config->tied_head, hub->tied_head);
  EXPECT_EQ(config->eos_id, hub->eos_id);
  EXPECT_EQ(config->local, hub->local);
  EXPECT_EQ(config->rope_pairs, kernels::RopePairs::kInterleaved);
}

TEST_F(LlamaGgufTest, OtherArchitecturesAreRefusedByName) {
  Rewrite([](GgufWriter& writer) { writer.Set("general.architecture", "qwen2"); });
  ExpectProblems(Read().status(), {"general.architecture is \"qwen2\", expected \"llama\""});
}

TEST_F(LlamaGgufTest, ReportsAllProblemsAtOnce) {
  Rewrite([](GgufWriter& writer) {
    SetSizes(writer.Set("general.architecture", "llama"));
    writer.Set("llama.attention.head_count_kv", uint32_t{3})
        .Set("llama.rope.dimension_count", uint32_t{8})
        .Set("llama.expert_count", uint32_t{8})
        .Set("llama.rope.freq_base", 0.5f)
        .Set("llama.rope.scaling.type", "yarn");
  });
  ExpectProblems(
      Read().status(),
      {"3 key-value heads, expected a divisor of 4",
       "llama.rope.dimension_count is 8, expected the heads' 16", "llama.expert_count is 8",
       "llama.rope.freq_base is 0.5, expected 1 to", "llama.rope.scaling.type is \"yarn\""});
}

TEST_F(LlamaGgufTest, MissingKeysAreNamed) {
  Rewrite([](GgufWriter& writer) { writer.Set("general.architecture", "llama"); });
  ExpectProblems(Read().status(), {"llama.block_count", "llama.attention.layer_norm_rms_epsilon",
                                   "tokenizer.ggml.eos_token_id"});
}

TEST_F(LlamaGgufTest, DivisorsComeFromTheirTensor) {
  std::vector<float> divisors(8, 1);
  divisors[7] = 8;
  writer_.AddFloats("rope_freqs.weight", {8}, divisors);
  const auto config = Read();
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->rope_divisors, ElementsAre(1, 1, 1, 1, 1, 1, 1, 8));
  writer_.tensors.pop_back();
  divisors[3] = 0;
  writer_.AddFloats("rope_freqs.weight", {8}, divisors);
  ExpectProblems(Read().status(), {"rope_freqs.weight has 0"});
  writer_.tensors.pop_back();
  writer_.AddFloats("rope_freqs.weight", {4}, {1, 1, 1, 1});
  ExpectProblems(Read().status(), {"rope_freqs.weight is [4], the config expects [8]"});
}

TEST_F(LlamaGgufTest, LinearScalingDividesAll) {
  Rewrite([](GgufWriter& writer) {
    SetSizes(writer.Set("general.architecture", "llama"));
    writer.Set("llama.rope.scaling.type", "linear").Set("llama.rope.scaling.factor", 4.0f);
  });
  const auto config = Read();
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->rope_divisors, Each(4.0));
}

}  // namespace
}  // namespace recollect::model
