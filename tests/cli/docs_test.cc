// Documents by name on the command line.
#include <string>

#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kNotFound = 3, kInvalid = 4;

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

TEST_F(DocsCliTest, EachVerbHasAnExampleOfItsOwn) {
  for (const char* verb : {"list", "get", "delete", "text"}) {
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

}  // namespace
}  // namespace recollect
