#include "model/config.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/tiny_model.h"

namespace recollect::model {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<ModelConfig> ParseChanged(const std::function<void(json&)>& change) {
  json config = json::parse(ConfigJson(TinyConfig()));
  change(config);
  return ParseConfig(config.dump());
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ConfigTest, ReadsEveryField) {
  ModelConfig expected = TinyConfig();
  expected.gca_residual = GcaResidual::kBypass;
  expected.recurrence = false;
  expected.memory_key_recurrence = false;
  expected.rope_base = 500.0;
  expected.norm_eps = 1e-5f;
  expected.encoder_layers = 2;
  expected.local.initial = 3;
  expected.lmk_id = 7;
  const auto config = ParseConfig(ConfigJson(expected));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(ConfigJson(*config), ConfigJson(expected));
  EXPECT_EQ(config->local, expected.local);
  EXPECT_THAT(config->adapted_dilations, ElementsAre(8, 16, 32));
}

TEST(ConfigTest, CountsLayersThroughGroups) {
  const ModelConfig config = TinyConfig();
  EXPECT_EQ(config.layers(), 5);
  EXPECT_EQ(config.first_layer_of_group(0), 2);
  EXPECT_EQ(config.first_layer_of_group(1), 3);
  std::vector<int> with_gca;
  for (int i = 0; i < config.layers(); ++i) {
    if (config.layer_has_gca(i)) with_gca.push_back(i);
  }
  EXPECT_THAT(with_gca, ElementsAre(2, 3));
}

TEST(ConfigTest, ReportsAllProblemsAtOnce) {
  const auto config = ParseChanged([](json& c) {
    c["format_version"] = 2;
    c["architecture"] = "gpt";
    c.erase("d");
    c["heads"] = "two";
    c["head_dim"] = 15;
    c["ffn"] = -1;
    c["colour"] = "red";
    c["local"]["dilation"] = 24;
    c["local"]["span"] = 5;
    c["groups"][1]["gca_layers"] = {2};
    c["groups"][0]["depth"] = 1;
    c["lmk_id"] = 0;
    c["eos_id"] = 320;
    c["norm_eps"] = 0;
    c["recurrence"] = 1;
    c["gca_residual"] = "sum";
    c["adapted_dilations"] = {3};
  });
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message = Message(config.status());
  for (const char* part :
       {"format_version is 2, expected 1", "architecture is \"gpt\", expected \"drt\"", "d missing",
        "heads is \"two\"", "head_dim is 15, expected an even number", "ffn is -1",
        "colour is not a known key", "local.dilation is 24, expected a divisor of 64",
        "local.span is 5, expected at least window 127", "groups[1].gca_layers is [2]",
        "groups[0].depth is not a known key", "unk_id, lmk_id, eos_id are 0, 0, 320",
        "eos_id is 320, expected below vocab_size 320", "norm_eps is 0", "recurrence is 1",
        "gca_residual is \"sum\"", "adapted_dilations is [3]"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(ConfigTest, RefusesTextThatIsNotAConfig) {
  for (const char* text : {"", "{", "[]", "null", "{\"d\": 1,}"}) {
    EXPECT_EQ(ParseConfig(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(Message(ParseConfig("{\"d\": 1, \"d\": 2}").status()),
              HasSubstr("\"d\" appears twice"));
}

TEST(ConfigTest, RefusesNumbersThatDoNotFit) {
  for (const json& value :
       {json(0), json(1.5), json(uint64_t{1} << 63), json(int64_t{1} << 40), json(nullptr)}) {
    const auto config = ParseChanged([&](json& c) { c["d"] = value; });
    EXPECT_THAT(Message(config.status()), HasSubstr("d is ")) << value;
  }
}

TEST(ConfigTest, RefusesMemoryHeadsThatDoNotDivide) {
  const auto config = ParseChanged([](json& c) { c["memory_kv_heads"] = 3; });
  EXPECT_THAT(Message(config.status()),
              HasSubstr("memory_kv_heads is 3, expected a divisor of heads 2"));
}

TEST(ConfigTest, PatternOfARequestMustBeAdapted) {
  const ModelConfig config = TinyConfig();
  LocalPattern pattern = config.local;
  EXPECT_TRUE(ValidatePattern(config, pattern).ok());
  pattern.dilation = 8;
  EXPECT_TRUE(ValidatePattern(config, pattern).ok());
  pattern.dilation = 64;
  pattern.window = 4;
  pattern.span = -1;
  const absl::Status status = ValidatePattern(config, pattern);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("dilation is 64, the checkpoint is adapted to 8, 16, 32"),
                    HasSubstr("window is 4, the checkpoint is adapted to 127"),
                    HasSubstr("span is -1, expected 0 to"),
                    HasSubstr("span is -1, expected at least window 4")));
}

}  // namespace
}  // namespace recollect::model
