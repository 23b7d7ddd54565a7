// Metadata and filters on it, and lists of what matches.
#include "store/metadata.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/metadata_filter.h"
#include "tests/store/store_testing.h"

namespace recollect::store {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

auto Refused(const std::string& part) { return StatusIs(StatusCode::kInvalidArgument, part); }

std::string WithKeys(int64_t keys) {
  std::string object = "{";
  for (int64_t i = 0; i < keys; ++i) absl::StrAppend(&object, i == 0 ? "" : ",", "\"", i, "\":1");
  return object + "}";
}

TEST(MetadataTest, IsKeptInOneForm) {
  const std::string kept =
      R"({"by":"Ann ä","draft":true,"least":-9223372036854775808,"share":2.5,"year":2024})";
  EXPECT_EQ(*ReadMetadata(R"( {"year": 2024, "draft" : true, "by":"Ann \u00e4", "share": 2.50,
                               "least": -9223372036854775808} )"),
            kept);
  EXPECT_EQ(*ReadMetadata(kept), kept);
  EXPECT_EQ(*ReadMetadata("{}"), "");
}

TEST(MetadataTest, WhatIsNoneIsRefusedNamingTheKey) {
  EXPECT_THAT(ReadMetadata(""), Refused("metadata: "));
  EXPECT_THAT(ReadMetadata("{"), Refused("metadata: not JSON"));
  EXPECT_THAT(ReadMetadata("[1]"), Refused("metadata: array, expected an object"));
  EXPECT_THAT(ReadMetadata(R"({"a":{"b":1}})"),
              Refused("metadata: key \"a\": object, expected a string, a number, true or false"));
  EXPECT_THAT(ReadMetadata(R"({"a":1,"tags":["x"]})"), Refused("key \"tags\": array"));
  EXPECT_THAT(ReadMetadata(R"({"a":null})"), Refused("key \"a\": null"));
  EXPECT_THAT(ReadMetadata(R"({"a":1,"a":2})"), Refused("key \"a\" appears twice"));
  EXPECT_THAT(ReadMetadata(R"({"":1})"), Refused("key \"\" has 0 bytes"));
  EXPECT_THAT(ReadMetadata(R"({"a":1e999})"), Refused("beyond the range of a double"));
  EXPECT_THAT(ReadMetadata(std::string(100000, '[')), Refused("metadata: "));
}

TEST(MetadataTest, LimitsAreNamedWithBothNumbers) {
  const std::string key(64, 'k'), long_key(65, 'k');
  EXPECT_THAT(ReadMetadata(absl::StrCat("{\"", key, "\":1}")), IsOk());
  EXPECT_THAT(ReadMetadata(absl::StrCat("{\"", long_key, "\":1}")),
              Refused("has 65 bytes, expected 1 to 64"));
  EXPECT_THAT(ReadMetadata(WithKeys(64)), IsOk());
  EXPECT_THAT(ReadMetadata(WithKeys(65)), Refused("65 keys, at most 64"));
  const auto of_size = [](size_t bytes) {
    return absl::StrCat("{\"a\":\"", std::string(bytes - 8, 'x'), "\"}");
  };
  EXPECT_THAT(ReadMetadata(of_size(4096)), IsOk());
  EXPECT_THAT(ReadMetadata(of_size(4097)), Refused("4097 bytes of JSON, at most 4096"));
}

TEST(MetadataTest, APatchSetsAndRemovesKeys) {
  EXPECT_EQ(*PatchMetadata("", R"({"a":1})"), R"({"a":1})");
  EXPECT_EQ(*PatchMetadata(R"({"a":1,"b":2})", R"({"b":null,"c":"x","d":null})"),
            R"({"a":1,"c":"x"})");
  EXPECT_EQ(*PatchMetadata(R"({"a":1})", R"({"a":null})"), "");
  EXPECT_EQ(*PatchMetadata(R"({"a":1})", "{}"), R"({"a":1})");
  EXPECT_THAT(PatchMetadata(R"({"a":1})", R"({"b":[1]})"), Refused("key \"b\": array"));
  EXPECT_THAT(PatchMetadata(WithKeys(64), R"({"x":1})"), Refused("65 keys"));
  EXPECT_THAT(PatchMetadata(R"({"a":1})", R"({"":null})"), Refused("0 bytes"));
}

bool Matches(const std::string& filter, const std::string& metadata) {
  const auto parsed = MetadataFilter::Parse(filter, "filter");
  EXPECT_THAT(parsed, IsOk()) << filter;
  return parsed.ok() && parsed->Matches(metadata);
}

std::string Compare(const std::string& type, const std::string& value) {
  return absl::StrCat(R"({"type":")", type, R"(","key":"k","value":)", value, "}");
}

TEST(MetadataFilterTest, EveryTypeComparesNumbersAndStrings) {
  struct Case {
    std::string low, middle, high;
  };
  for (const Case& c : {Case{"-1", "2", "2.5"}, Case{"1e3", "9007199254740992", "9007199254740993"},
                        Case{"-5", "9223372036854775807", "9223372036854775808"},
                        Case{"\"2024-01\"", "\"2024-05-01\"", "\"ä\""}}) {
    const std::string has = absl::StrCat("{\"k\":", c.middle, "}");
    const auto results = [&](const std::string& type) {
      return std::vector<bool>{Matches(Compare(type, c.low), has),
                               Matches(Compare(type, c.middle), has),
                               Matches(Compare(type, c.high), has)};
    };
    EXPECT_THAT(results("eq"), ElementsAre(false, true, false)) << has;
    EXPECT_THAT(results("ne"), ElementsAre(true, false, true)) << has;
    EXPECT_THAT(results("gt"), ElementsAre(true, false, false)) << has;
    EXPECT_THAT(results("gte"), ElementsAre(true, true, false)) << has;
    EXPECT_THAT(results("lt"), ElementsAre(false, false, true)) << has;
    EXPECT_THAT(results("lte"), ElementsAre(false, true, true)) << has;
    const std::string list = absl::StrCat("[", c.low, ",", c.middle, "]");
    EXPECT_TRUE(Matches(Compare("in", list), has));
    EXPECT_FALSE(Matches(Compare("nin", list), has));
    EXPECT_FALSE(Matches(Compare("in", absl::StrCat("[", c.low, "]")), has));
    EXPECT_TRUE(Matches(Compare("nin", absl::StrCat("[", c.high, "]")), has));
  }
  EXPECT_TRUE(Matches(Compare("eq", "2.0"), R"({"k":2})"));
  EXPECT_TRUE(Matches(Compare("eq", "true"), R"({"k":true})"));
  EXPECT_FALSE(Matches(Compare("eq", "false"), R"({"k":true})"));
  EXPECT_FALSE(Matches(Compare("in", "[]"), R"({"k":1})"));
  EXPECT_TRUE(Matches(Compare("nin", "[]"), R"({"k":1})"));
}

TEST(MetadataFilterTest, ValuesOfOtherTypesAreDifferentAndNotInOrder) {
  for (const char* has : {R"({"k":"2024"})", R"({"k":true})"}) {
    EXPECT_FALSE(Matches(Compare("eq", "2024"), has));
    EXPECT_TRUE(Matches(Compare("ne", "2024"), has));
    EXPECT_TRUE(Matches(Compare("nin", "[2024]"), has));
    for (const char* type : {"gt", "gte", "lt", "lte"}) {
      EXPECT_FALSE(Matches(Compare(type, "2024"), has)) << type;
    }
  }
}

TEST(MetadataFilterTest, AKeyThatIsNotThereIsEqualToNothing) {
  for (const char* has : {"", R"({"other":1})"}) {
    for (const char* type : {"eq", "gt", "gte", "lt", "lte"}) {
      EXPECT_FALSE(Matches(Compare(type, "1"), has)) << type;
    }
    EXPECT_FALSE(Matches(Compare("in", "[1]"), has));
    EXPECT_TRUE(Matches(Compare("ne", "1"), has));
    EXPECT_TRUE(Matches(Compare("nin", "[1]"), has));
  }
}

TEST(MetadataFilterTest, AllOrOneOfSeveral) {
  const auto both = [](const std::string& type) {
    return absl::StrCat(R"({"type":")", type, R"(","filters":[)", Compare("gt", "1"),
                        R"(,{"type":"eq","key":"lang","value":"en"}]})");
  };
  EXPECT_TRUE(Matches(both("and"), R"({"k":2,"lang":"en"})"));
  EXPECT_FALSE(Matches(both("and"), R"({"k":2,"lang":"de"})"));
  EXPECT_FALSE(Matches(both("and"), R"({"lang":"en"})"));
  EXPECT_TRUE(Matches(both("or"), R"({"k":2,"lang":"de"})"));
  EXPECT_TRUE(Matches(both("or"), R"({"lang":"en"})"));
  EXPECT_FALSE(Matches(both("or"), R"({"k":1,"lang":"de"})"));
}

TEST(MetadataFilterTest, NoFilterMatchesAll) {
  const auto none = MetadataFilter::Parse("", "filter");
  ASSERT_THAT(none, IsOk());
  EXPECT_TRUE(none->matches_all() && none->Matches("") && none->Matches(R"({"a":1})"));
}

std::string Nested(int64_t depth) {
  std::string filter = Compare("eq", "1");
  for (int64_t i = 1; i < depth; ++i) {
    filter = absl::StrCat(R"({"type":"and","filters":[)", filter, "]}");
  }
  return filter;
}

TEST(MetadataFilterTest, WhatIsNoneIsRefusedNamingThePlace) {
  const auto parse = [](const std::string& text) {
    return MetadataFilter::Parse(text, "mount_filter");
  };
  const std::string eq = Compare("eq", "1");
  EXPECT_THAT(parse("{"), Refused("mount_filter: not JSON"));
  EXPECT_THAT(parse("[]"), Refused("mount_filter: array, expected an object"));
  EXPECT_THAT(parse("{}"), Refused("mount_filter: type is missing"));
  EXPECT_THAT(parse(R"({"type":1})"), Refused("mount_filter.type: number, expected a string"));
  EXPECT_THAT(parse(R"({"type":"like","key":"k","value":"x"})"),
              Refused("mount_filter.type: \"like\", expected one of eq, ne"));
  EXPECT_THAT(parse(R"({"type":"eq","value":1})"), Refused("mount_filter: key is missing"));
  EXPECT_THAT(parse(R"({"type":"eq","key":1,"value":1})"), Refused("mount_filter.key: number"));
  EXPECT_THAT(parse(R"({"type":"eq","key":"k"})"), Refused("mount_filter: value is missing"));
  EXPECT_THAT(parse(R"({"type":"eq","key":"k","value":1,"ignore_case":true})"),
              Refused("mount_filter: unknown field \"ignore_case\""));
  EXPECT_THAT(parse(R"({"type":"and","filters":[)" + eq + R"(],"key":"k"})"),
              Refused("unknown field \"key\""));
  EXPECT_THAT(parse(R"({"type":"eq","type":"ne","key":"k","value":1})"), Refused("twice"));
  EXPECT_THAT(parse(Compare("eq", "null")), Refused("mount_filter.value: null, expected"));
  EXPECT_THAT(parse(Compare("eq", "[1]")), Refused("mount_filter.value: array, expected"));
  EXPECT_THAT(parse(Compare("lt", "true")),
              Refused("mount_filter.value: boolean, expected a string or a number"));
  EXPECT_THAT(parse(Compare("in", "1")),
              Refused("mount_filter.value: number, expected a list of values"));
  EXPECT_THAT(parse(Compare("nin", "[1,{}]")), Refused("mount_filter.value[1]: object"));
  EXPECT_THAT(parse(R"({"type":"or","filters":[]})"),
              Refused("mount_filter.filters: an empty list, expected at least one filter"));
  EXPECT_THAT(parse(R"({"type":"or","filters":{}})"), Refused("mount_filter.filters: object"));
  EXPECT_THAT(parse(R"({"type":"and","filters":[)" + eq + "," + Compare("eq", "{}") + "]}"),
              Refused("mount_filter.filters[1].value: object"));
}

TEST(MetadataFilterTest, DepthAndSizeAreBounded) {
  EXPECT_THAT(MetadataFilter::Parse(Nested(8), "filter"), IsOk());
  EXPECT_THAT(MetadataFilter::Parse(Nested(9), "filter"), Refused("more than 8 deep"));
  EXPECT_THAT(MetadataFilter::Parse(Nested(100), "filter"), Refused("filter: nested"));
  EXPECT_THAT(MetadataFilter::Parse(std::string(16384, '['), "filter"), Refused("filter: "));
  const size_t frame = Compare("eq", "\"\"").size();
  const auto of_size = [&](size_t bytes) {
    return Compare("eq", absl::StrCat("\"", std::string(bytes - frame, 'x'), "\""));
  };
  EXPECT_THAT(MetadataFilter::Parse(of_size(16384), "filter"), IsOk());
  EXPECT_THAT(MetadataFilter::Parse(of_size(16385), "filter"), Refused("16385"));
}

TEST(ListMatchingTest, FindsWhatBeginsSoAndMatchesUpToALimit) {
  const auto store = CreateMemoryStore();
  for (const char* id : {"a", "b", "b/", "b/1", "b/2", "b/3", "c"}) {
    const auto progress = store->BeginIngest(id, "f", false, "");
    ASSERT_THAT(progress, IsOk());
    IngestBatch last;
    last.metadata = absl::StrCat("{\"odd\":", std::string(id).back() % 2 == 1, "}");
    ASSERT_THAT(store->PublishIngest(progress->owner, last), IsOk());
  }
  const auto odd = MetadataFilter::Parse(R"({"type":"eq","key":"odd","value":1})", "filter");
  ASSERT_THAT(odd, IsOk());
  const auto ids = [&](const std::string& after, int64_t limit, const std::string& beginning,
                       const MetadataFilter& filter) {
    std::vector<std::string> found;
    const auto page = ListMatching(*store, after, limit, beginning, filter);
    EXPECT_THAT(page, IsOk());
    for (const DocumentInfo& info : *page) found.push_back(info.id);
    return found;
  };
  const MetadataFilter all;
  EXPECT_THAT(ids("", 10, "", all), ElementsAre("a", "b", "b/", "b/1", "b/2", "b/3", "c"));
  EXPECT_THAT(ids("", 10, "b/", all), ElementsAre("b/", "b/1", "b/2", "b/3"));
  EXPECT_THAT(ids("b/", 2, "b/", all), ElementsAre("b/1", "b/2"));
  EXPECT_THAT(ids("", 0, "", all), IsEmpty());
  EXPECT_THAT(ids("", 10, "", *odd), ElementsAre("a", "b/", "b/1", "b/3", "c"));
  EXPECT_THAT(ids("", 2, "", *odd), ElementsAre("a", "b/"));
  EXPECT_THAT(ids("b/1", 10, "b", *odd), ElementsAre("b/3"));
  EXPECT_THAT(ids("", 10, "d", *odd), IsEmpty());
}

}  // namespace
}  // namespace recollect::store
