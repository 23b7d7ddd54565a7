// Documents by name on the command line.
#include <string>
#include <vector>

#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DocsCliTest : public CliTest {};

// Nothing that a person types is read as a list of CLI11's own.
TEST_F(DocsCliTest, BracketsAreTextLikeAnyOther) {
  const std::string text = "some text of a document";
  EXPECT_EQ(Embedded({"ingest", "--id", "u", "-"}, text).exit_code, 0);
  EXPECT_EQ(Embedded({"docs", "delete", "[u]"}).exit_code, kNotFound);
  EXPECT_EQ(Embedded({"ingest", "--id", "[u]", "-"}, text).exit_code, 0);
  EXPECT_EQ(Json(Embedded({"docs", "get", "[u]", "--json"}))["id"], "[u]");
  EXPECT_EQ(Embedded({"docs", "text", "[u]"}).out, text);
  const auto answer =
      Json(Embedded({"generate", "--mount", "[u],u", "--prompt", "x", "--max-tokens", "1", "--stop",
                     "[]", "--stop", "[a", "--json"}));
  EXPECT_EQ(answer["usage"]["generated_tokens"], 1);
  EXPECT_EQ(Json(Embedded({"docs", "delete", "u", "[u]", "--json"}))["deleted"].size(), 2u);
}

TEST_F(DocsCliTest, AnIngestTakesTheNameOfItsFileUnlessAnotherIsGiven) {
  const ProcessResult ingested = Embedded({"ingest", File("may notes.txt", Text(100))});
  EXPECT_EQ(ingested.exit_code, 0) << ingested.err;
  EXPECT_THAT(ingested.out, testing::StartsWith("may notes.txt: "));
  const ProcessResult nameless = Embedded({"ingest", "-"}, "some text");
  EXPECT_EQ(nameless.exit_code, kInvalid);
  EXPECT_THAT(nameless.err, HasSubstr("--id is required: '-' has no name"));
}

TEST_F(DocsCliTest, DeleteTakesAllThereAreAndNamesTheOthers) {
  for (const char* id : {"a", "b"}) {
    EXPECT_EQ(Embedded({"ingest", "--id", id, "-"}, "some text").exit_code, 0);
  }
  const ProcessResult result = Embedded({"docs", "delete", "a", "no-such", "b", "nor-this"});
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_THAT(result.err, HasSubstr("no-such"));
  EXPECT_THAT(result.err, HasSubstr("nor-this"));
  EXPECT_TRUE(Json(Embedded({"docs", "list", "--json"}))["documents"].empty());
}

TEST_F(DocsCliTest, AnIngestReplacesADocumentWhereItIsToldTo) {
  const std::vector<std::string> ingest = {"ingest", "--id", "notes/may", "-"};
  EXPECT_EQ(Embedded(ingest, "the old text").exit_code, 0);
  EXPECT_EQ(Embedded(ingest, "the new text").exit_code, kConflict);
  EXPECT_EQ(Embedded({"ingest", "--id", "notes/may", "-", "--replace"}, "the new text").exit_code,
            0);
  EXPECT_EQ(Embedded({"docs", "text", "notes/may"}).out, "the new text");
}

TEST_F(DocsCliTest, AnIngestGoesOnWithADocumentWhereItIsToldTo) {
  for (const char* text : {"the old text", ", and more"}) {
    EXPECT_EQ(Embedded({"ingest", "--id", "log", "-", "--append"}, text).exit_code, 0);
  }
  EXPECT_EQ(Embedded({"docs", "text", "log"}).out, "the old text, and more");
  EXPECT_EQ(Embedded({"ingest", "--id", "log", "-", "--append", "--replace"}, "x").exit_code,
            kUsage);
}

TEST_F(DocsCliTest, AWildcardMountsAllThatBeginSo) {
  for (const char* id : {"notes/april", "notes/may", "other"}) {
    EXPECT_EQ(Embedded({"ingest", "--id", id, "-"}, Text(100)).exit_code, 0);
  }
  const auto ask = [&](const std::string& mounts) {
    return Embedded({"retrieve", "--mount", mounts, "--query", "whale", "--json"});
  };
  EXPECT_EQ(Json(ask("notes/*")), Json(ask("notes/april,notes/may")));
  const ProcessResult none = ask("diary/*");
  EXPECT_EQ(none.exit_code, kNotFound);
  EXPECT_THAT(none.err, HasSubstr("no document has an id that begins with"));
}

TEST_F(DocsCliTest, MetadataIsSetListedAndMountedBy) {
  EXPECT_EQ(Embedded({"ingest", "--id", "notes/a", "-", "--metadata", "year=2024", "--metadata",
                      R"({"lang":"en"})"},
                     Text(100))
                .exit_code,
            0);
  EXPECT_EQ(Embedded({"ingest", "--id", "notes/b", "-"}, Text(100)).exit_code, 0);
  const auto show = [&] { return Embedded({"docs", "metadata", "notes/a", "--json"}).out; };
  EXPECT_EQ(show(), "{\"lang\":\"en\",\"year\":2024}\n");
  EXPECT_EQ(Embedded({"docs", "metadata", "notes/a", "--set", "draft=true", "--set", "code=\"007\"",
                      "--set", "by=Ann B", "--remove", "lang", "--json"})
                .out,
            "{\"by\":\"Ann B\",\"code\":\"007\",\"draft\":true,\"year\":2024}\n");
  EXPECT_EQ(Json(Embedded({"docs", "get", "notes/a", "--json"}))["metadata"]["year"], 2024);
  const auto ids = [&](const std::vector<std::string>& where) {
    std::vector<std::string> command = {"docs", "list", "--json"};
    for (const std::string& condition : where) {
      command.insert(command.end(), {"--where", condition});
    }
    std::vector<std::string> found;
    const auto listed = Json(Embedded(command));
    for (const auto& document : listed["documents"]) found.push_back(document["id"]);
    return found;
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(ids({"year>=2024", "draft=true"}), Ids{"notes/a"});
  EXPECT_EQ(ids({"year<2024"}), Ids{});
  EXPECT_EQ(ids({"code=7"}), Ids{});
  EXPECT_EQ(ids({"code=\"007\""}), Ids{"notes/a"});
  EXPECT_EQ(ids({"by!=Ann B"}), Ids{"notes/b"});
  EXPECT_EQ(ids({R"({"type":"in","key":"year","value":[2023,2024]})"}), Ids{"notes/a"});
  const auto ask = [&](std::vector<std::string> mounts) {
    mounts.insert(mounts.begin(), "retrieve");
    mounts.insert(mounts.end(), {"--query", "whale", "--json"});
    return Embedded(mounts);
  };
  EXPECT_EQ(Json(ask({"--mount", "notes/*", "--mount-where", "year=2024"})),
            Json(ask({"--mount", "notes/a"})));
  EXPECT_EQ(ask({"--mount", "notes/*", "--mount-where", "year=2025"}).exit_code, kNotFound);
  EXPECT_THAT(ask({"--mount", "notes/*", "--mount-where", "2024"}).err,
              HasSubstr("--mount-where: '2024', expected KEY=VALUE"));
  EXPECT_THAT(Embedded({"docs", "metadata", "notes/a", "--set", R"({"tags":["x"]})"}).err,
              HasSubstr("key \"tags\": array"));
  EXPECT_EQ(Embedded({"docs", "metadata", "notes/a", "--replace", "--json"}).out, "{}\n");
}

TEST_F(DocsCliTest, RefreshReadsDocumentsOfAnotherModelAgain) {
  for (const char* id : {"u", "v", "w"}) {
    EXPECT_EQ(Embedded({"ingest", "--id", id, "-"}, Text(300)).exit_code, 0);
  }
  const auto fingerprint = [&](const std::string& id) {
    return Json(Embedded({"docs", "get", id, "--json"}))["fingerprint"];
  };
  const auto before = fingerprint("u");
  WriteTinyModel(Path("model"), TinyConfig(), 2);
  EXPECT_THAT(Embedded({"docs", "list"}).out, HasSubstr("of another model"));
  const ProcessResult refused = Embedded({"retrieve", "--mount", "u", "--query", "whale"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("docs refresh"));
  const ProcessResult one = Embedded({"docs", "refresh", "u", "none"});
  EXPECT_EQ(one.exit_code, kNotFound) << "all of them have to be there";
  EXPECT_EQ(fingerprint("u"), before);
  EXPECT_EQ(Embedded({"docs", "refresh", "u"}).exit_code, 0);
  EXPECT_NE(fingerprint("u"), before);
  EXPECT_EQ(fingerprint("v"), before);
  const auto all = Json(Embedded({"docs", "refresh", "--all", "--json"}));
  EXPECT_EQ(all["documents"].size(), 2u);
  EXPECT_TRUE(all["failed"].empty());
  EXPECT_THAT(Embedded({"docs", "list"}).out, Not(HasSubstr("of another model")));
  EXPECT_EQ(Embedded({"docs", "text", "v"}).out, Text(300));
  EXPECT_EQ(Embedded({"docs", "refresh"}).exit_code, kInvalid);
  EXPECT_EQ(Embedded({"docs", "refresh", "u", "--all"}).exit_code, kInvalid);
}

TEST_F(DocsCliTest, EachVerbHasAnExampleOfItsOwn) {
  for (const char* verb : {"list", "get", "delete", "text", "refresh"}) {
    const std::string help = Run({"docs", verb, "--help"}).out;
    EXPECT_THAT(help, HasSubstr(std::string("recollect docs ") + verb));
    EXPECT_THAT(help, Not(HasSubstr("recollect serve")));
  }
}

TEST_F(DocsCliTest, ATextRangeBeyondTheDocumentPrintsNothing) {
  EXPECT_EQ(Embedded({"ingest", "--id", "d", "-"}, std::string(5000, 'x')).exit_code, 0);
  const ProcessResult beyond = Embedded({"docs", "text", "d", "--end", "5001"});
  EXPECT_EQ(beyond.exit_code, kInvalid);
  EXPECT_EQ(beyond.out, "");
  EXPECT_THAT(beyond.err, HasSubstr("[0, 5001) of a document that has 5000 bytes"));
}

TEST_F(DocsCliTest, AnEmptyIdIsRefusedAndNotLeftOut) {
  ASSERT_EQ(Run({"ingest", "--model", Path("model"), "--data-dir", Path("data"), "--id", "a", "-"},
                Text(100))
                .exit_code,
            0);
  const ProcessResult result =
      Run({"docs", "delete", "", "--model", Path("model"), "--data-dir", Path("data")});
  EXPECT_EQ(result.exit_code, kInvalid);
  EXPECT_THAT(result.err, HasSubstr("bytes: 0"));
}

}  // namespace
}  // namespace recollect
