// Configs of the family ratplus, and with them patterns by layer and head.
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/config/config_testing.h"

namespace recollect::model {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<ModelConfig> ParseRatPlus(const std::function<void(json&)>& change) {
  return ParseChanged(change, TinyRatPlusConfig());
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

TEST(RatPlusConfigTest, DocumentsArePrefixesOrText) {
  EXPECT_EQ(ParseRatPlus([](json&) {})->documents(), DocumentKind::kPrefix);
  const auto prefix = ParseRatPlus([](json& c) { c["documents"] = "prefix"; });
  ASSERT_TRUE(prefix.ok()) << prefix.status();
  EXPECT_EQ(prefix->documents(), DocumentKind::kPrefix);
  const auto text = ParseRatPlus([](json& c) { c["documents"] = "text"; });
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->documents(), DocumentKind::kText);
  EXPECT_EQ(text->chunk_tokens, 63);
  EXPECT_EQ(text->min_chunk_tokens, 32);
  EXPECT_THAT(
      std::string(ParseRatPlus([](json& c) { c["documents"] = "pages"; }).status().message()),
      HasSubstr("documents is \"pages\", expected"));
  // With landmarks there is no choice.
  EXPECT_THAT(
      std::string(
          ParseChanged([](json& c) { c["documents"] = "text"; }, TinyConfig()).status().message()),
      HasSubstr("documents is not a known key"));
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

// The number of heads is missing, so a list by head has no right length.
TEST(RatPlusConfigTest, ListsByHeadWithoutANumberOfHeads) {
  const auto parsed = ParseRatPlus([](json& c) {
    c.erase("heads");
    c["local"]["window"] = {json::array(), {1, 2}, 0};
  });
  EXPECT_THAT(Message(parsed.status()), HasSubstr("heads missing"));
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
