// Properties of the mixers that hold whatever the weights, and what a config of them may say.
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/weights/weights.h"
#include "nlohmann/json.hpp"
#include "tests/model/model_testing.h"

namespace recollect::model {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Family {
  const char* name;
  ModelConfig (*config)();
};

// ALiBi without a window, with grouped heads.
ModelConfig AlibiOverAll() {
  ModelConfig config = TinyDrtPaperConfig();
  config.heads = 6;
  config.head_dim = 8;
  config.kv_heads = config.memory_kv_heads = 3;
  config.mixers[0].window = kUnboundedSpan;
  config.local = LocalPattern{0, 1, 0, kUnboundedSpan};
  return config;
}

class MixersTest : public ::testing::TestWithParam<Family> {
 protected:
  ModelConfig config_ = GetParam().config();
  std::vector<LocalPatterns> patterns_ = {config_.local};
};

TEST_P(MixersTest, PrefillInAnySplitEqualsTokenByToken) {
  for (const DType dtype : DTypes()) {
    ExpectAnySplitHasTheSameBits(*Make("split", config_, dtype), patterns_);
  }
}

TEST_P(MixersTest, StoredStateGoesOnWithTheSameBits) {
  for (const DType dtype : DTypes()) {
    ExpectStoredStateGoesOn(*Make("continue", config_, dtype), patterns_);
  }
}

TEST_P(MixersTest, BatchOfSequencesEqualsEachAlone) {
  for (const DType dtype : DTypes()) {
    ExpectABatchEqualsEachAlone(*Make("batch", config_, dtype), patterns_);
  }
}

TEST_P(MixersTest, DamagedStatesAreDataLoss) {
  const auto model = Make("damage", config_);
  LocalState state = LocalState::Create(config_, config_.local, config_.layers());
  RunTokens(*model, config_.local, RandomTokens(40, 1), kBlockRows, &state);
  const std::string bytes = state.Serialize();
  for (size_t size = 0; size < bytes.size(); size += size < 256 ? 1 : 97) {
    EXPECT_EQ(LocalState::Deserialize(config_, config_.local, config_.layers(),
                                      std::string_view(bytes).substr(0, size))
                  .status()
                  .code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
}

TEST_P(MixersTest, ConfigComesBackAndPatternsAreItsOwn) {
  const auto config = ParseConfig(ConfigJson(config_));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(ConfigJson(*config), ConfigJson(config_));
  EXPECT_EQ(config->local, config_.local);
  EXPECT_TRUE(ValidatePatterns(*config, config->local).ok());
}

INSTANTIATE_TEST_SUITE_P(Families, MixersTest,
                         ::testing::Values(Family{"RatSwa", TinyRatSwaConfig},
                                           Family{"Rattention", TinyRattentionConfig},
                                           Family{"LinearAlone", LinearAlone},
                                           Family{"Alibi", TinyDrtPaperConfig},
                                           Family{"AlibiOverAll", AlibiOverAll}),
                         [](const auto& param) { return param.param.name; });

std::string ProblemsOf(const ModelConfig& config, const std::function<void(json&)>& change) {
  json changed = json::parse(ConfigJson(config));
  change(changed);
  const absl::Status status = ParseConfig(changed.dump()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(MixersConfigTest, ReportsAllProblemsAtOnce) {
  EXPECT_THAT(
      ProblemsOf(TinyRatSwaConfig(),
                 [](json& c) {
                   c["kv_heads"] = 3;
                   c["ffn_kind"] = "relu";
                   c["rope_pairs"] = 1;
                   c["head_norm_eps"] = -1;
                   c["recurrence"] = true;
                   c["local"] = 5;
                   c["mixers"][0]["chunk"] = 0;
                   c["mixers"][0]["shared_heads"] = 5;
                   c["mixers"][0]["window"] = 3;
                   c["mixers"][1]["window"] = -2;
                   c["mixers"][1]["positions"] = "alibi";
                   c["mixers"].push_back({{"kind", "rattention"}});
                   c["mixers"].push_back("rat");
                 }),
      AllOf(HasSubstr("kv_heads is 3, expected a divisor of heads 4"),
            HasSubstr("ffn_kind is \"relu\", expected \"gelu\" or \"geglu\" or \"swiglu\""),
            HasSubstr("rope_pairs is 1, expected \"half\" or \"interleaved\""),
            HasSubstr("head_norm_eps is -1"), HasSubstr("recurrence is not a known key"),
            HasSubstr("local is not a known key"), HasSubstr("mixers[0].chunk is 0"),
            HasSubstr("mixers[0].shared_heads is 5, expected 1 to 4"),
            HasSubstr("mixers[0].window is not a known key"), HasSubstr("mixers[1].window is -2"),
            HasSubstr("mixers[1].positions is \"alibi\", expected \"rope\" or \"none\""),
            HasSubstr("mixers[2].kind is \"rattention\", expected \"rat\" or \"attention\""),
            HasSubstr("mixers[3] is \"rat\", expected an object")));
  EXPECT_THAT(ProblemsOf(TinyRatSwaConfig(), [](json& c) { c["mixers"] = json::array(); }),
              HasSubstr("mixers is [], expected a list of mixers"));
  EXPECT_THAT(ProblemsOf(TinyRatSwaConfig(), [](json& c) { c.erase("mixers"); }),
              HasSubstr("mixers missing"));
  EXPECT_THAT(ProblemsOf(TinyRatSwaConfig(), [](json& c) { c["mixers"][1]["qk_norm"] = true; }),
              HasSubstr("head_norm_eps missing, expected with mixers that have norms by head"));
  // A family says which kinds it has.
  EXPECT_THAT(ProblemsOf(TinyRatSwaConfig(), [](json& c) { c["architecture"] = "rat"; }),
              HasSubstr("mixers[1].kind is \"attention\", expected \"rat\""));
}

TEST(MixersConfigTest, ReportsAllProblemsOfRattention) {
  EXPECT_THAT(
      ProblemsOf(TinyRattentionConfig(),
                 [](json& c) {
                   json& mixer = c["mixers"][0];
                   mixer["window"] = -1;
                   mixer["feature_map"] = "identity";
                   mixer["learned_tokens"] = -1;
                   mixer["qk_scale"] = 1;
                   c["mixers"].push_back({{"kind", "rattention"}, {"positions", "none"}});
                   c["mixers"].push_back({{"kind", "rat"}});
                 }),
      AllOf(HasSubstr("mixers[0].qk_norm is true, expected false with window -1"),
            HasSubstr("mixers[0].feature_map is \"identity\", expected \"softmax\" or"),
            HasSubstr("mixers[0].learned_tokens is -1"),
            HasSubstr("mixers[0].qk_scale is 1, expected true or false"),
            HasSubstr("mixers[2].window missing"), HasSubstr("mixers[2].feature_map missing"),
            HasSubstr("mixers[3].kind is \"rat\", expected \"rattention\" or \"attention\"")));
  EXPECT_THAT(ProblemsOf(TinyRattentionConfig(), [](json& c) { c.erase("head_norm_eps"); }),
              HasSubstr("head_norm_eps missing, expected with mixers that have norms by head"));
}

TEST(MixersConfigTest, ReportsAllProblemsOfDrtPaper) {
  EXPECT_THAT(
      ProblemsOf(TinyDrtPaperConfig(),
                 [](json& c) {
                   c["chunk_tokens"] = 65;
                   c["landmark_at"] = "middle";
                   c["landmark_row"] = 1;
                   c["landmark_reads"] = "successor";
                   c["gca_softmax"] = "off_by_two";
                   c["gca_residual"] = "sum";
                   c["encoder_norm_eps"] = 0;
                   c["d_r"] = 16;
                   c["encoder_carry"] = true;
                   c["memory_key_recurrence"] = true;
                   c["layers"] = 3;
                   c["local"] = {{"window", 5}};
                   c["kv_heads"] = 4;
                   c["mixers"].push_back({{"kind", "rat"}});
                 }),
      AllOf(HasSubstr("chunk_tokens is 65, expected 63 to 64"),
            HasSubstr("landmark_at is \"middle\", expected \"start\" or \"end\""),
            HasSubstr("landmark_row is 1, expected \"cls\" or \"stream\""),
            HasSubstr("landmark_reads is \"successor\", expected \"own\" or \"predecessor\""),
            HasSubstr("gca_softmax is \"off_by_two\", expected \"off_by_one\" or \"ordinary\""),
            HasSubstr("gca_residual is \"sum\""), HasSubstr("encoder_norm_eps is 0"),
            HasSubstr("d_r is 16, expected d 32 where score_projections is false"),
            HasSubstr("encoder_carry is not a known key"),
            HasSubstr("memory_key_recurrence is not a known key"),
            HasSubstr("layers is not a known key"), HasSubstr("local is not a known key"),
            HasSubstr("kv_heads is 4, expected a divisor of heads 2"),
            HasSubstr("mixers has 2 entries, expected 1"),
            HasSubstr("mixers[1].kind is \"rat\", expected \"attention\"")));
  // The switches must be said: a checkpoint without one of them could be either.
  const std::string missing = ProblemsOf(TinyDrtPaperConfig(), [](json& c) {
    for (const char* key : {"chunk_tokens", "landmark_at", "landmark_row", "landmark_reads",
                            "gca_softmax", "score_projections", "mixers"}) {
      c.erase(key);
    }
    c.erase("encoder_norm_eps");  // then as norm_eps
  });
  EXPECT_EQ(missing,
            "chunk_tokens missing; landmark_at missing; landmark_row missing; landmark_reads "
            "missing; gca_softmax missing; score_projections missing; mixers missing");
}

TEST(MixersConfigTest, PatternsAreNotTheRequestsChoice) {
  const ModelConfig config = TinyRatSwaConfig();
  const absl::Status status = ValidatePatterns(config, config.local.With(&LocalPattern::dilation, 8)
                                                           .With(&LocalPattern::window, 3)
                                                           .With(&LocalPattern::initial, 2)
                                                           .WithContext(512)
                                                           .WithBlocks(config.top_k.With(2)));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("dilation is 8, the checkpoint is adapted to 5"),
                    HasSubstr("dilation is 8, the checkpoint is adapted to -1"),
                    HasSubstr("window is 3, the checkpoint is adapted to 0"),
                    HasSubstr("window is 3, the checkpoint is adapted to 9"),
                    HasSubstr("initial is 2, the checkpoint is adapted to 0"),
                    HasSubstr("context is 512, the checkpoint has no context to stretch"),
                    HasSubstr("top_k_blocks is 2, the checkpoint allows 0")));
}

TEST(MixersLoadTest, RattentionHoldsItsTensorsAndNoOthers) {
  ModelConfig config = TinyRattentionConfig();
  WriteTinyModel(Directory("tensors"), config, 1);
  ASSERT_TRUE(CpuModel::Load(Directory("tensors")).ok());
  config.mixers[0] = LinearAlone().mixers[0];
  config.mixers[1].qk_norm = false;
  WriteFile(Directory("tensors") + "/config.json", ConfigJson(config));
  const absl::Status status = CpuModel::Load(Directory("tensors")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  std::string message(status.message());
  for (const char* extra :
       {"layers.0.mixer.q_norm.weight [8]", "layers.0.mixer.k_norm.weight [8]",
        "layers.0.mixer.swa_norm.weight [4, 8]", "layers.0.mixer.rla.q_scale [8]",
        "layers.0.mixer.rla.k_scale [8]", "layers.0.mixer.rla.init_k [4, 3, 8]",
        "layers.0.mixer.rla.init_v [4, 3, 8]", "layers.1.mixer.q_norm.weight [8]"}) {
    EXPECT_THAT(message, HasSubstr(std::string(extra) + " is not a tensor of this config"));
  }
  EXPECT_THAT(message, Not(HasSubstr("rla_norm")));
}

TEST(MixersLoadTest, DrtPaperHoldsItsTensorsAndNoOthers) {
  ModelConfig config = TinyDrtPaperConfig();
  WriteTinyModel(Directory("published"), config, 1);
  ASSERT_TRUE(CpuModel::Load(Directory("published")).ok());
  const auto problems = [&](const char* weights) {
    WriteFile(Directory(weights) + "/config.json", ConfigJson(config));
    const absl::Status status = CpuModel::Load(Directory(weights)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  config.landmark_row = LandmarkRow::kCls;
  config.score_projections = true;
  config.ffn = 40;
  WriteTinyModel(Directory("as_flagship"), config, 1);
  EXPECT_THAT(problems("published"),
              AllOf(HasSubstr("encoder.cls is missing, expected [32]"),
                    HasSubstr("landmark_proj.weight is missing, expected [32, 32]"),
                    HasSubstr("groups.0.query_proj.weight is missing, expected [32, 32]"),
                    HasSubstr("groups.1.query_proj.weight is missing, expected [32, 32]"),
                    HasSubstr("encoder.layers.0.ffn.in_proj.weight is [96, 32], the config "
                              "expects [80, 32]")));
  config = TinyDrtPaperConfig();
  config.ffn = 40;
  EXPECT_THAT(problems("as_flagship"),
              AllOf(HasSubstr("encoder.cls [32] is not a tensor of this config"),
                    HasSubstr("landmark_proj.weight [32, 32] is not a tensor of this config"),
                    HasSubstr("groups.1.query_proj.weight [32, 32] is not a tensor of this")));
}

TEST(MixersLoadTest, ConfigAndWeightsThatDisagreeNameBothShapes) {
  ModelConfig config = TinyRatSwaConfig();
  WriteTinyModel(Directory("shapes"), config, 1);
  config.kv_heads = 4;
  config.mixers[0].shared_heads = 1;
  config.mixers[1].qk_norm = true;
  config.head_norm_eps = 1e-6f;
  config.n_low = 2;
  WriteFile(Directory("shapes") + "/config.json", ConfigJson(config));
  const absl::Status status = CpuModel::Load(Directory("shapes")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("layers.0.mixer.in_proj.weight is [128, 32], the config expects [112, 32]"),
            HasSubstr("layers.1.mixer.in_proj.weight is [64, 32], the config expects [96, 32]"),
            HasSubstr("layers.1.mixer.q_norm.weight is missing, expected [8]"),
            HasSubstr("layers.2.mixer.gate_bias [32] is not a tensor of this config"),
            Not(HasSubstr("layers.1.mixer.gate_bias"))));
}

}  // namespace
}  // namespace recollect::model
