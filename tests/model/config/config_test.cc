#include "model/config/config.h"

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
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
using ::testing::Not;

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
  EXPECT_THAT(message(32), AllOf(HasSubstr("d is [["), Not(HasSubstr("nested"))));
  EXPECT_EQ(message(33), "nested 33 deep, expected at most 32");
  EXPECT_EQ(message(100'000), "nested 100000 deep, expected at most 32");
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

absl::StatusOr<ModelConfig> ParseRatPlus(const std::function<void(json&)>& change) {
  json config = json::parse(ConfigJson(TinyRatPlusConfig()));
  change(config);
  return ParseConfig(config.dump());
}

TEST(RatPlusConfigTest, ReadsEveryFieldAndHasNoMemory) {
  ModelConfig expected = TinyRatPlusConfig();
  expected.recurrence = false;
  expected.rope_base = 500.0;
  const auto config = ParseConfig(ConfigJson(expected));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(ConfigJson(*config), ConfigJson(expected));
  EXPECT_FALSE(config->landmarks());
  EXPECT_EQ(config->layers(), 3);
  EXPECT_TRUE(config->groups.empty());
  EXPECT_EQ(config->parts(2).ffn, FfnKind::kGelu);
  EXPECT_FALSE(config->parts(2).gate_bias);
  EXPECT_FALSE(config->parts(2).gca);
  EXPECT_EQ(config->local, expected.local);
  EXPECT_EQ(config->local.everywhere()->span, kUnboundedSpan);
  EXPECT_EQ(config->adapted_windows, expected.adapted_windows);
  EXPECT_EQ(config->adapted_initials, expected.adapted_initials);
}

TEST(RatPlusConfigTest, ReadsPatternsByLayerAndHead) {
  const auto config = ParseRatPlus([](json& c) {
    c["local"] = {{"window", {0, 1024, 0}}, {"dilation", {{1, 4}, -1, 16}}, {"initial", 2}};
  });
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->local.everywhere(), nullptr);
  const auto pattern = [](int64_t window, int64_t dilation) {
    return LocalPattern{window, dilation, 2, kUnboundedSpan};
  };
  EXPECT_THAT(config->local.layer(0), ElementsAre(pattern(0, 1), pattern(0, 4)));
  EXPECT_THAT(config->local.layer(1), ElementsAre(pattern(1024, -1)));
  EXPECT_THAT(config->local.layer(2), ElementsAre(pattern(0, 16)));
}

TEST(RatPlusConfigTest, ReportsAllProblemsAtOnce) {
  const auto config = ParseRatPlus([](json& c) {
    c.erase("layers");
    c["layers"] = 2;
    c["n_low"] = 2;
    c["lmk_id"] = 1;
    c["context"] = 0;
    c["eos_id"] = 0;
    c["local"] = {
        {"window", {0, -1}}, {"dilation", {{1, 0}, {4, -2}}}, {"initial", "four"}, {"span", "far"}};
    c["adapted_dilations"] = {4, 0};
    c["adapted_windows"] = {{"min", 9}, {"max", 8}};
    c["adapted_initials"] = 4;
    c["max_context"] = 100;
    c["top_k"] = {{"block", 0}, {"score", "best"}};
  });
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* part :
       {"n_low is not a known key", "lmk_id is not a known key", "context is 0, expected 1 to",
        "unk_id, eos_id are 0, 0", "local.initial is \"four\", expected an integer",
        "local.span is \"far\", expected an integer or null", "adapted_dilations is [4,0]",
        "adapted_windows has max 8, expected at least min 9", "adapted_initials is 4",
        "max_context is 100, expected at least context, which is not given", "top_k.block is 0",
        "top_k.max missing", "top_k.score is \"best\", expected \"quest\" or \"moba\""}) {
    EXPECT_THAT(Message(config.status()), HasSubstr(part));
  }
}

TEST(RatPlusConfigTest, NamesTheLayerAndHeadOfAnImpossiblePattern) {
  const auto values = ParseRatPlus([](json& c) {
    c["local"] = {{"window", {0, -1, 0}}, {"dilation", {{1, 0}, 4, -2}}, {"initial", 0}};
  });
  EXPECT_THAT(Message(values.status()),
              AllOf(HasSubstr("local.window is -1, expected 0 to"), HasSubstr(" in layer 1"),
                    HasSubstr("local.dilation is 0, expected -1 for none, or 1 to"),
                    HasSubstr(" in layer 0 in head 1"), HasSubstr("local.dilation is -2")));
  const auto counts = ParseRatPlus([](json& c) {
    c["local"] = {{"window", {0, 1}}, {"dilation", {{1, 2, 3}, 4, 4}}, {"initial", {0, 0, 1.5}}};
  });
  EXPECT_THAT(Message(counts.status()),
              AllOf(HasSubstr("local.window has 2 entries, expected one for each of 3 layers"),
                    HasSubstr("local.dilation[0] has 3 entries, expected one for each of 2 heads"),
                    HasSubstr("local.initial[2] is 1.5, expected an integer")));
}

// Lists of some kilobytes, and together a gigabyte of patterns.
TEST(RatPlusConfigTest, RefusesMorePatternsThanAnyModelHas) {
  json config = json::parse(ConfigJson(TinyRatPlusConfig()));
  config["layers"] = config["heads"] = 4096;
  config["head_dim"] = 2;
  config["local"]["window"] = std::vector<json>(4096, 1);
  config["local"]["window"][0] = std::vector<int>(4096, 2);
  EXPECT_THAT(Message(ParseConfig(config.dump()).status()),
              HasSubstr("local is for 4096 layers of 4096 heads, expected at most 65536 of them"));
}

TEST(RatPlusConfigTest, ASpanIsUnboundedWhereItSaysNothing) {
  const auto everywhere = ParseRatPlus([](json& c) { c["local"]["span"] = 100; });
  ASSERT_TRUE(everywhere.ok()) << everywhere.status();
  EXPECT_EQ(everywhere->local.everywhere()->span, 100);
  EXPECT_EQ(ParseConfig(ConfigJson(*everywhere))->local, everywhere->local);
  // No dilation has to divide it, and it may be as short as the window.
  const auto lists = ParseRatPlus([](json& c) {
    c["local"]["window"] = {9, 0, 0};
    c["local"]["dilation"] = {3, 128, -1};
    c["local"]["span"] = {9, {nullptr, 50}, nullptr};
  });
  ASSERT_TRUE(lists.ok()) << lists.status();
  EXPECT_THAT(lists->local.layer(0), ElementsAre(LocalPattern{9, 3, 4, 9}));
  EXPECT_THAT(lists->local.layer(1),
              ElementsAre(LocalPattern{0, 128, 4, kUnboundedSpan}, LocalPattern{0, 128, 4, 50}));
  EXPECT_THAT(lists->local.layer(2), ElementsAre(LocalPattern{0, -1, 4, kUnboundedSpan}));
  EXPECT_EQ(ParseConfig(ConfigJson(*lists))->local, lists->local);

  const auto wrong = ParseRatPlus([](json& c) {
    c["local"]["window"] = {30, 0, 0};
    c["local"]["span"] = {29, {0, -1}, 1.5};
  });
  EXPECT_EQ(Message(wrong.status()), "local.span[2] is 1.5, expected an integer or null");
  const auto impossible = ParseRatPlus([](json& c) {
    c["local"]["window"] = {30, 0, 0};
    c["local"]["span"] = {29, {0, -1}, nullptr};
  });
  EXPECT_THAT(Message(impossible.status()),
              AllOf(HasSubstr("local.span is 29, expected at least window 30 in layer 0"),
                    HasSubstr("local.span is -1, expected 0 to"), HasSubstr("in layer 1 in head 1"),
                    Not(HasSubstr("layer 2"))));
  // The flagship must say it.
  EXPECT_EQ(Message(ParseChanged([](json& c) { c["local"].erase("span"); }).status()),
            "local.span missing");
  EXPECT_EQ(Message(ParseChanged([](json& c) { c["local"]["span"] = nullptr; }).status()),
            "local.span is null, expected an integer");
}

// A window that requests may ask for does not fit every span.
TEST(RatPlusConfigTest, TheSpanIsNotTheRequestsChoice) {
  ModelConfig config = TinyRatPlusConfig();
  config.local = config.local.With(&LocalPattern::span, 100);
  EXPECT_TRUE(ValidatePatterns(config, config.local.With(&LocalPattern::window, 100)).ok());
  const auto refusal = [&](int64_t LocalPattern::*field, int64_t value) {
    return Message(ValidatePatterns(config, config.local.With(field, value)));
  };
  EXPECT_EQ(refusal(&LocalPattern::span, 64),
            "local pattern: span is 64, the checkpoint is adapted to 100");
  EXPECT_EQ(refusal(&LocalPattern::window, 101),
            "local pattern: span is 100, expected at least window 101");
}

TEST(RatPlusConfigTest, PatternOfARequestMustBeAdapted) {
  const ModelConfig config = TinyRatPlusConfig();
  const auto check = [&](int64_t window, int64_t dilation, int64_t initial) {
    return ValidatePatterns(config, LocalPattern{window, dilation, initial, kUnboundedSpan});
  };
  EXPECT_TRUE(check(0, 16, 4).ok());
  EXPECT_TRUE(check(8, 1, 0).ok());
  EXPECT_TRUE(check(512, -1, 8).ok());
  const absl::Status status = check(7, 3, 9);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("window is 7, the checkpoint is adapted to 0 and 8 to 512"),
                    HasSubstr("dilation is 3, the checkpoint is adapted to -1, 1, 4, 16, 64"),
                    HasSubstr("initial is 9, the checkpoint is adapted to 4 and 0 to 8")));
}

}  // namespace
}  // namespace recollect::model
