// Conditions and settings of flags as filters and metadata.
#include "cli/common/metadata_flags.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace recollect::cli {
namespace {

auto Refused(const std::string& part) { return StatusIs(absl::StatusCode::kInvalidArgument, part); }

std::string Filter(const std::string& condition) {
  return FilterFromFlags("--where", {condition}).value();
}

TEST(MetadataFlagsTest, AConditionHasAnOperator) {
  EXPECT_EQ(Filter("year=2024"), R"({"type":"eq","key":"year","value":2024})");
  EXPECT_EQ(Filter("year==2024"), R"({"type":"eq","key":"year","value":2024})");
  EXPECT_EQ(Filter("year!=-1.5"), R"({"type":"ne","key":"year","value":-1.5})");
  EXPECT_EQ(Filter("year>2024"), R"({"type":"gt","key":"year","value":2024})");
  EXPECT_EQ(Filter("year>=2024"), R"({"type":"gte","key":"year","value":2024})");
  EXPECT_EQ(Filter("year<2024"), R"({"type":"lt","key":"year","value":2024})");
  EXPECT_EQ(Filter("year<=2024"), R"({"type":"lte","key":"year","value":2024})");
}

TEST(MetadataFlagsTest, WhatIsNoValueOfJsonIsAString) {
  EXPECT_EQ(Filter("draft=true"), R"({"type":"eq","key":"draft","value":true})");
  EXPECT_EQ(Filter("code=007"), R"({"type":"eq","key":"code","value":"007"})");
  EXPECT_EQ(Filter("code=\"7\""), R"({"type":"eq","key":"code","value":"7"})");
  EXPECT_EQ(Filter("a b=c = d"), R"({"type":"eq","key":"a b","value":"c = d"})");
  EXPECT_EQ(Filter("by=null"), R"({"type":"eq","key":"by","value":"null"})");
  EXPECT_EQ(Filter("by="), R"({"type":"eq","key":"by","value":""})");
  EXPECT_EQ(Filter("tags=[1]"), R"({"type":"eq","key":"tags","value":"[1]"})");
}

TEST(MetadataFlagsTest, SeveralConditionsMeanAnd) {
  EXPECT_EQ(FilterFromFlags("--where", {}).value(), "");
  EXPECT_EQ(FilterFromFlags("--where", {"a=1", R"({"type":"in","key":"b","value":[2]})"}).value(),
            R"({"type":"and","filters":[{"type":"eq","key":"a","value":1},)"
            R"({"key":"b","type":"in","value":[2]}]})");
}

TEST(MetadataFlagsTest, WhatIsNoneNamesTheFlag) {
  for (const char* condition : {"", "year", "=2024", ">=1", "year!2024"}) {
    EXPECT_THAT(FilterFromFlags("--where", {condition}), Refused("--where: '")) << condition;
  }
  EXPECT_THAT(FilterFromFlags("--where", {"{"}), Refused("--where: not JSON"));
  EXPECT_THAT(FilterFromFlags("--where", {"a=\xff"}), Refused("--where: not UTF-8"));
  EXPECT_THAT(MetadataFromFlags("--set", {"year"}), Refused("--set: 'year', expected KEY=VALUE"));
  EXPECT_THAT(MetadataFromFlags("--set", {"=1"}), Refused("--set: '=1'"));
}

TEST(MetadataFlagsTest, SettingsAreOneObjectOfWhichTheLastOnesCount) {
  EXPECT_EQ(MetadataFromFlags("--set", {"a=1", R"({"b":"x","a":2})", "c=y=z"}).value().dump(),
            R"({"a":2,"b":"x","c":"y=z"})");
  EXPECT_EQ(MetadataFromFlags("--set", {}).value().dump(), "{}");
}

}  // namespace
}  // namespace recollect::cli
