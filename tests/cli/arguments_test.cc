// The command line's help, and what it says of arguments that it does not take.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CliTest, HelpTeachesWithExamplesAndExitCodes) {
  const ProcessResult help = Run({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* text :
       {"Examples:", "recollect ingest --id", "Exit codes:", "RECOLLECT_DATA_DIR", "bench"}) {
    EXPECT_THAT(help.out, HasSubstr(text));
  }
  for (const char* verb :
       {"serve", "ingest", "docs", "retrieve", "generate", "score", "bench", "model", "stats"}) {
    const ProcessResult result = Run({verb, "--help"});
    EXPECT_EQ(result.exit_code, 0) << verb;
    EXPECT_THAT(result.out, HasSubstr("Example")) << verb;
  }
  EXPECT_THAT(Run({"--version"}).out, HasSubstr("recollect 0."));
}

TEST_F(CliTest, WrongUseIsExitCodeTwo) {
  EXPECT_EQ(Run({}).exit_code, kUsage);
  EXPECT_EQ(Run({"frobnicate"}).exit_code, kUsage);
  EXPECT_EQ(Run({"generate", "--bogus"}).exit_code, kUsage);
  EXPECT_EQ(Run({"ingest"}).exit_code, kUsage);  // without a file
  EXPECT_EQ(Run({"docs"}).exit_code, kUsage);
  EXPECT_EQ(Run({"stats", "--dtype", "fp8"}).exit_code, kUsage);
  EXPECT_EQ(Run({"stats", "--timeout", "1e9"}).exit_code, kUsage);
  EXPECT_EQ(Run({"stats", "--timeout", "nan"}).exit_code, kUsage);
  EXPECT_EQ(Run({"serve", "--drain-timeout", "nan"}).exit_code, kUsage);
  EXPECT_EQ(Run({"stats", "--threads", "-3"}).exit_code, kUsage);
  for (const char* flag : {"--data-dir", "--model", "--threads=1", "--chunk-states-budget=1MiB"}) {
    std::vector<std::string> arguments = {"stats", "--server", "127.0.0.1:1", flag};
    if (arguments.back().find('=') == std::string::npos) arguments.push_back("x");
    const ProcessResult both = Run(arguments);
    EXPECT_EQ(both.exit_code, kUsage) << flag;
    EXPECT_THAT(both.err, HasSubstr("exclude each other"));
  }
  // In the environment they are for whoever has no server.
  EXPECT_EQ(Run({"stats", "--server", "127.0.0.1:1"}, "", {"RECOLLECT_MODEL=x"}).exit_code,
            kUnavailable);
}

TEST_F(CliTest, WhatIsNotKnownIsNamed) {
  EXPECT_THAT(Run({"bogus"}).err, HasSubstr("not expected: bogus"));
  EXPECT_THAT(Run({"--bogus"}).err, HasSubstr("not expected: --bogus"));
  EXPECT_THAT(Run({"docs", "bogus"}).err, HasSubstr("not expected: bogus"));
  EXPECT_THAT(Run({"docs"}).err, HasSubstr("A subcommand is required"));
}

TEST_F(CliTest, ANegativeSeedStandsForItsBitsAsOverHttp) {
  const auto text = [&](const std::string& seed) {
    const ProcessResult result = Embedded({"generate", "--prompt", "the whale", "--seed", seed,
                                           "--temperature", "1", "--max-tokens", "8"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(text("-1"), text("18446744073709551615"));
}

TEST_F(CliTest, NumbersThatDoNotFitAreRefused) {
  for (const char* seed : {"-9223372036854775809", "18446744073709551616", "1.5"}) {
    EXPECT_EQ(Run({"generate", "--prompt", "x", "--seed", seed}).exit_code, kUsage) << seed;
  }
  for (const char* bytes : {"99999999999999999999", "9EiB", "32EiB"}) {
    EXPECT_EQ(Run({"stats", "--chunk-states-budget", bytes}).exit_code, kUsage) << bytes;
  }
  for (const char* flag : {"--max-tokens", "--top-k", "--text-tokens", "--context"}) {
    const ProcessResult beyond = Run({"generate", "--prompt", "x", flag, "99999999999999999999"});
    EXPECT_EQ(beyond.exit_code, kUsage) << flag;
    EXPECT_THAT(beyond.err,
                HasSubstr("'99999999999999999999' is no whole number, or out of range"));
  }
  EXPECT_EQ(Embedded({"generate", "--prompt", "x", "--seed", "18446744073709551615",
                      "--temperature", "1", "--max-tokens", "1"})
                .exit_code,
            0);
}

TEST_F(CliTest, PromptsAndTextsMustBeGiven) {
  for (const char* verb : {"generate", "score"}) {
    EXPECT_EQ(Run({verb}).exit_code, kUsage) << verb;
  }
  EXPECT_THAT(Run({"generate"}).err, HasSubstr("--prompt or --prompt-file is required"));
  const ProcessResult empty = Embedded({"score", "--text", ""});
  EXPECT_EQ(empty.exit_code, kInvalid);
  EXPECT_THAT(empty.err, HasSubstr("--text: empty"));
}

TEST_F(CliTest, ServersListenOnHostAndPortOnly) {
  const ProcessResult http =
      Run({"serve", "--model", Path("model"), "--data-dir", ":memory:", "--grpc-listen",
           "127.0.0.1:0", "--http-listen", "8080"});
  EXPECT_EQ(http.exit_code, kInvalid);
  EXPECT_THAT(http.err, HasSubstr("--http-listen: '8080'"));
  for (const char* listen :
       {"127.0.0.1:99999", "127.0.0.1", "", ":50051", "127.0.0.1:", "127.0.0.1:abc", ":abc", ":-1",
        "127.0.0.1:-1", "unix:1", "::1:0", "unix:/tmp/recollect"}) {
    const ProcessResult result =
        Run({"serve", "--model", Path("model"), "--data-dir", ":memory:", "--grpc-listen", listen});
    EXPECT_EQ(result.exit_code, kInvalid) << listen;
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("--grpc-listen: '", listen, "'")));
  }
}

TEST_F(CliTest, AServerThatStrangersMayReachSaysSo) {
  const auto serve = [&](const char* listen) {
    return Run({"serve", "--model", Path("no model"), "--data-dir", ":memory:", "--grpc-listen",
                listen})
        .err;
  };
  for (const char* listen : {"0.0.0.0:0", "[::]:0"})
    EXPECT_THAT(serve(listen),
                HasSubstr(absl::StrCat(listen, " may be reached from other machines")));
  EXPECT_THAT(serve("127.0.0.1:0"), Not(HasSubstr("may be reached")));
}

}  // namespace
}  // namespace recollect
