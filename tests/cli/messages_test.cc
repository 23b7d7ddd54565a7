// What the command line says of mistakes: its form, its length, and what it does to a terminal.
#include <string>
#include <vector>

#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MessagesCliTest : public CliTest {};

TEST_F(MessagesCliTest, WrongUseIsJsonWhereJsonIsAsked) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"bogus", "--json"},
        {"--json", "docs"},
        {"stats", "--json", "--bogus"},
        {"ingest", "--json"},
        {"stats", "--threads", "-3", "--json"},
        {"stats", "--json", "--config", Path("missing.toml")}}) {
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, kUsage);
    const auto json = nlohmann::json::parse(result.err, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << result.err;
    EXPECT_EQ(json["error"]["code"], "INVALID_ARGUMENT");
    EXPECT_FALSE(json["error"]["message"].get<std::string>().empty());
  }
}

TEST_F(MessagesCliTest, QuotedValuesAreShortenedAndShowWhatTheyAre) {
  const std::string turned = "left\u202etfel";
  EXPECT_THAT(Embedded({"ingest", "--id", turned, File("a.txt", "x")}).err,
              AllOf(HasSubstr("left\\u{202e}tfel"), Not(HasSubstr(turned))));
  EXPECT_THAT(Run({"stats", "--threads", "x" + turned}).err, Not(HasSubstr(turned)));
  const std::string text = ReadFile(Path("model") + "/config.json");
  const size_t at = text.find("\"rope_base\"");
  ASSERT_NE(at, std::string::npos);
  const std::string most(5 << 20, 'x');
  WriteFile(Path("model") + "/config.json",
            text.substr(0, at) + "\"" + most + "\": 1, " + text.substr(at));
  const ProcessResult model = Embedded({"model"});
  EXPECT_EQ(model.exit_code, kInvalid);
  EXPECT_LT(model.err.size(), 4096u) << model.err.substr(0, 4096);
  EXPECT_THAT(model.err, HasSubstr("bytes)"));
  const ProcessResult option =
      Run({"stats", "--config", File("c.toml", "model = \"" + most + "\"")});
  EXPECT_EQ(option.exit_code, kNotFound);
  EXPECT_LT(option.err.size(), 20000u);
}

TEST_F(MessagesCliTest, WhatMayHaveBeenMeantIsNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"genrate"}, "not expected: genrate; did you mean 'generate'?"},
      {{"docs", "exprot"}, "did you mean 'export'?"},
      {{"frob", "x"}, "not expected: frob x; commands are "},
      {{"docs", "frob", "x"}, "not expected: frob x; commands are "},
      {{"query", "x"}, "did you mean 'retrieve'?"},
      {{"model", "pull", "x"}, "did you mean 'model add'?"},
      {{"serve", "--port", "80"}, "did you mean '--http-listen'?"},
      {{"stats", "--port", "80"}, "not expected: --port 80"},
      {{"chat", "two", "words"}, "not expected: words; a text of several words stands in quotes"},
      {{"ingest", "a", "b"}, "not expected: b"},
      {{"generate", "--promt", "x"}, "did you mean '--prompt'?"},
      {{"stats", "--sever=a:1"}, "did you mean '--server'?"},
      {{"help", "ingset"}, "there is no command 'ingset' to help with; did you mean 'ingest'?"}};
  for (const auto& [arguments, message] : cases) {
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, kUsage);
    EXPECT_THAT(result.err, HasSubstr(message));
  }
  for (const std::vector<std::string>& far :
       {std::vector<std::string>{"xyzzy"}, {"stats", "--xyzzy"}})
    EXPECT_THAT(Run(far).err, AllOf(HasSubstr("not expected"), Not(HasSubstr("did you mean"))));
}

TEST_F(MessagesCliTest, WhatANumberMustBeIsSaid) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"generate", "x", "--temperature", "hot"}, "--temperature: 'hot' is not a number"},
      {{"chat", "--temperature=hot"}, "--temperature: 'hot' is not a number"},
      {{"generate", "x", "--top-k", "1.5"}, "--top-k: '1.5' is no whole number"},
      {{"stats", "--timeout", "soon"}, "--timeout: 'soon' is not a number"}};
  for (const auto& [arguments, message] : cases) {
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, kUsage);
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

TEST_F(MessagesCliTest, HelpWithAVerbIsWhatItsFlagPrints) {
  for (const std::vector<std::string>& verb :
       {std::vector<std::string>{}, {"generate"}, {"docs", "export"}}) {
    std::vector<std::string> help = verb, flag = verb;
    help.insert(help.begin(), "help");
    flag.emplace_back("--help");
    const ProcessResult result = Run(help);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, Run(flag).out);
    EXPECT_THAT(result.out, HasSubstr("Usage"));
  }
}

TEST_F(MessagesCliTest, AHostWithoutAnAddressIsNamed) {
  const ProcessResult result = Run({"serve", "--model", Path("model"), "--data-dir",
                                    ":memory:", "--grpc-listen", "no-such-host.invalid:0"});
  EXPECT_THAT(result.exit_code, testing::AnyOf(kInvalid, kUnavailable));  // without a name server
  EXPECT_THAT(result.err, HasSubstr("no address of the host 'no-such-host.invalid'"));
}

}  // namespace
}  // namespace recollect
