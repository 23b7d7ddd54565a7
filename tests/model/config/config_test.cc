#include "model/config/config.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/model/config/config_testing.h"

namespace recollect::model {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ConfigTest, ReadsEveryField) {
  ModelConfig expected = TinyConfig();
  expected.gca_residual = GcaResidual::kBypass;
  expected.recurrence = false;
  expected.memory_key_recurrence = false;
  expected.rope_base = 500.0;
  expected.norm_eps = 1e-5f;
  expected.encoder_layers = 2;
  expected.local = expected.local.With(&LocalPattern::initial, 3);
  expected.lmk_id = 7;
  expected.min_chunk_tokens = 24;
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
    c["min_chunk_tokens"] = 64;
    c["lexicon"] = {{"d", 0}, {"reach", 257}, {"depth", 1}};
    c["successors"] = 1;
    c["pointer"] = {{"reach", 65}, {"width", 1}};
  });
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message = Message(config.status());
  for (const char* part : {"format_version is 2, expected 1",
                           "d missing",
                           "heads is \"two\"",
                           "head_dim is 15, expected an even number",
                           "ffn is -1",
                           "colour is not a known key",
                           "local.dilation is 24, expected a divisor of 64",
                           "local.span is 5, expected at least window 127",
                           "groups[1].gca_layers is [2]",
                           "groups[0].depth is not a known key",
                           "unk_id, lmk_id, eos_id are 0, 0, 320",
                           "eos_id is 320, expected below vocab_size 320",
                           "norm_eps is 0",
                           "recurrence is 1",
                           "gca_residual is \"sum\"",
                           "adapted_dilations is [3]",
                           "min_chunk_tokens is 64, expected 1 to 63",
                           "lexicon.d is 0, expected 1 to 16777216",
                           "lexicon.reach is 257, expected 1 to 256",
                           "lexicon.depth is not a known key",
                           "successors is 1, expected true or false",
                           "pointer.reach is 65, expected 1 to 64",
                           "pointer.width is not a known key"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(ConfigTest, ALexiconNeedsBothOfItsNumbers) {
  EXPECT_THAT(Message(ParseChanged([](json& c) { c["lexicon"] = 64; }).status()),
              HasSubstr("lexicon is 64, expected an object"));
  EXPECT_EQ(Message(ParseChanged([](json& c) { c["lexicon"] = json::object(); }).status()),
            "lexicon.d missing; lexicon.reach missing");
}

TEST(ConfigTest, APointerSaysHowFarItReaches) {
  EXPECT_THAT(Message(ParseChanged([](json& c) { c["pointer"] = 16; }).status()),
              HasSubstr("pointer is 16, expected an object"));
  EXPECT_EQ(Message(ParseChanged([](json& c) { c["pointer"] = json::object(); }).status()),
            "pointer.reach missing");
  const auto config = ParseChanged([](json& c) { c["pointer"] = {{"reach", 16}}; });
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->pointer.reach, 16);
}

// Whose landmarks have other words for what they compare, or which have none.
TEST(ConfigTest, OnlyTheFlagshipHasALexiconAndSuccessors) {
  for (const ModelConfig& family : {TinyRatPlusConfig(), TinyDrtPaperConfig()}) {
    json config = json::parse(ConfigJson(family));
    config["lexicon"] = {{"d", 8}, {"reach", 8}};
    config["successors"] = true;
    const std::string message = Message(ParseConfig(config.dump()).status());
    EXPECT_THAT(message, AllOf(HasSubstr("lexicon is not a known key"),
                               HasSubstr("successors is not a known key")));
  }
}

// Keys that only some families have are neither missed nor unknown.
TEST(ConfigTest, OfAnUnknownFamilyReportsWhatAllHave) {
  const auto config = ParseChanged([](json& c) {
    c["architecture"] = "gpt";
    c["ffn"] = -1;
    c["colour"] = "red";
    c.erase("groups");
  });
  EXPECT_EQ(Message(config.status()),
            "architecture is \"gpt\", expected \"drt\" or \"ratplus\" or \"rat\" or "
            "\"rat-swa\" or \"rattention\" or \"drt-paper\"; ffn is -1, expected 1 to 16777216");
}

TEST(ConfigTest, RefusesTextThatIsNotAConfig) {
  for (const char* text : {"", "{", "[]", "null", "{\"d\": 1,}"}) {
    EXPECT_EQ(ParseConfig(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(Message(ParseConfig("{\"d\": 1, \"d\": 2}").status()),
              HasSubstr("\"d\" appears twice"));
}

TEST(ConfigTest, MessagesAreShortWhateverTheValues) {
  const std::string most(1 << 20, 'x');
  const auto config = ParseChanged([&](json& c) {
    c["architecture"] = most;
    c["d"] = most;
    c[most] = 1;
  });
  EXPECT_LT(config.status().message().size(), 1600u);
  EXPECT_THAT(Message(config.status()), HasSubstr("xx… (1048"));
  for (const std::string& text : {"{\"" + most + "\": 1, \"" + most + "\": 2}", "[" + most, most}) {
    EXPECT_EQ(ParseConfig(text).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_LT(ParseConfig(text).status().message().size(), 600u);
  }
  json many;
  for (int i = 0; i < 1000; ++i) many[absl::StrCat("key", i)] = i;
  many["architecture"] = "drt";
  EXPECT_THAT(Message(ParseConfig(many.dump()).status()), HasSubstr(" more"));
}

// Values are written out into messages, by recursion: depth must be bounded before.
TEST(ConfigTest, RefusesDeepNesting) {
  const auto message = [](size_t depth) {
    return Message(ParseConfig(absl::StrCat("{\"d\": ", std::string(depth - 1, '['),
                                            std::string(depth - 1, ']'), "}"))
                       .status());
  };
  EXPECT_THAT(message(64), AllOf(HasSubstr("d is [["), Not(HasSubstr("nested"))));
  EXPECT_EQ(message(65), "nested 65 deep, expected at most 64");
  EXPECT_EQ(message(100'000), "nested 100000 deep, expected at most 64");
}

TEST(ConfigTest, RefusesANegativeWindow) {
  const auto message = [](int64_t window) {
    return Message(ParseChanged([&](json& c) { c["local"]["window"] = window; }).status());
  };
  EXPECT_EQ(message(0), "");
  EXPECT_EQ(message(-1), absl::StrCat("local.window is -1, expected 0 to ", kUnboundedSpan));
}

TEST(ConfigTest, GroupsTogetherHaveNoMoreLayersThanAStack) {
  const auto message = [](int more) {
    return Message(ParseChanged([&](json& c) {
                     c["groups"][0]["layers"] = 4090;
                     c["groups"][1]["layers"] = 6 + more;
                   }).status());
  };
  EXPECT_EQ(message(0), "");
  EXPECT_EQ(message(1), "groups have 4097 layers, expected at most 4096");
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
  LocalPattern pattern = *config.local.everywhere();
  EXPECT_TRUE(ValidatePatterns(config, pattern).ok());
  pattern.dilation = 8;
  EXPECT_TRUE(ValidatePatterns(config, pattern).ok());
  pattern.dilation = 64;
  pattern.window = 4;
  pattern.span = -1;
  const absl::Status status = ValidatePatterns(config, pattern);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("dilation is 64, the checkpoint is adapted to 8, 16, 32"),
                    HasSubstr("window is 4, the checkpoint is adapted to 127"),
                    HasSubstr("span is -1, expected 0 to"),
                    HasSubstr("span is -1, expected at least window 4")));
}

}  // namespace
}  // namespace recollect::model
