// Which server, data directory and file of options a command takes, and what it says of others.
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;

class WhereCliTest : public CliTest {};

TEST_F(WhereCliTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const std::string config =
      File("c.toml", "model = \"" + Path("model") +
                         "\"\ndata-dir = \":memory:\"\nchunk-states-budget = \"8MiB\"\n");
  const auto budget = [&](const std::vector<std::string>& flags,
                          const std::vector<std::string>& environment) {
    std::vector<std::string> arguments = {"stats", "--json", "--config", config};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Json(Run(arguments, "", environment))["chunk_states_budget_bytes"].get<int64_t>() >> 20;
  };
  EXPECT_EQ(budget({}, {}), 8);
  EXPECT_EQ(budget({}, {"RECOLLECT_CHUNK_STATES_BUDGET=9MiB"}), 9);
  EXPECT_EQ(budget({"--chunk-states-budget", "10MiB"}, {"RECOLLECT_CHUNK_STATES_BUDGET=9MiB"}), 10);
  EXPECT_EQ(budget({}, {"RECOLLECT_CHUNK_STATES_BUDGET="}), 8);  // empty counts as not set
  const ProcessResult unknown =
      Run({"stats", "--config", File("bad.toml", "no-such-option = 1\n")});
  EXPECT_EQ(unknown.exit_code, kUsage);
  EXPECT_EQ(Run({"stats", "--config", Path("missing.toml")}).exit_code, kUsage);
  // A flag chooses the backend over the environment.
  EXPECT_EQ(Run({"docs", "list", "--model", Path("model"), "--data-dir", ":memory:"}, "",
                {"RECOLLECT_SERVER=127.0.0.1:1"})
                .exit_code,
            0);
}

// Every option with its default is in the sample, and the sample parses.
TEST_F(WhereCliTest, TheSampleConfigurationIsComplete) {
  const std::string sample = std::string(RECOLLECT_SOURCE_DIR) + "/deploy/recollect.toml";
  EXPECT_EQ(Run({"model", "--config", sample, "--model", Path("model"), "--data-dir", ":memory:"})
                .exit_code,
            0);
  const std::string text = ReadFile(sample);
  for (const char* option : {"server",
                             "data-dir",
                             "store-lease",
                             "cache-dir",
                             "cache-budget",
                             "model",
                             "dtype",
                             "threads",
                             "device",
                             "index",
                             "landmark-budget",
                             "memory-budget",
                             "chunk-states-budget",
                             "state-budget",
                             "timeout",
                             "log-level",
                             "grpc-listen",
                             "http-listen",
                             "http-hosts",
                             "http-cors-origins",
                             "drain-timeout",
                             "accept-data-loss",
                             "keys",
                             "api-key-file",
                             "insecure",
                             "tls-cert",
                             "tls-key",
                             "tls-ca"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n# ") + option + " = ")) << option;
  }
}

TEST_F(WhereCliTest, ACacheIsForAStoreElsewhere) {
  const ProcessResult result = Run({"docs", "list", "--model", Path("model"), "--data-dir",
                                    ":memory:", "--cache-dir", Path("cache")});
  EXPECT_EQ(result.exit_code, kInvalid);
  EXPECT_THAT(result.err, HasSubstr("--cache-dir " + Path("cache") + " is for --store"));
  EXPECT_FALSE(std::filesystem::exists(Path("cache")));
}

TEST_F(WhereCliTest, ADirectoryThatIsNotThereHasNoDocuments) {
  const std::string directory = Path("no_such");
  for (const std::vector<std::string>& asked :
       {std::vector<std::string>{"docs", "list"},
        {"docs", "get", "books"},
        {"retrieve", "--mount", "books", "--query", "x"},
        {"generate", "--mount", "books", "--prompt", "x"}}) {
    std::vector<std::string> arguments = asked;
    arguments.insert(arguments.end(), {"--model", Path("model"), "--data-dir", directory});
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, kNotFound) << result.err;
    EXPECT_THAT(result.err, HasSubstr("data directory " + directory + " does not exist"));
    EXPECT_FALSE(std::filesystem::exists(directory));
  }
  EXPECT_EQ(Run({"generate", "--prompt", "x", "--max-tokens", "1", "--model", Path("model"),
                 "--data-dir", directory})
                .exit_code,
            0);
}

TEST_F(WhereCliTest, WithoutAHomeSomebodyHasToSayWhere) {
  const ProcessResult result =
      Run({"docs", "list", "--model", Path("model")}, "", {"HOME=", "XDG_DATA_HOME="});
  EXPECT_EQ(result.exit_code, kConflict);
  EXPECT_THAT(result.err, HasSubstr("name a directory with --data-dir"));
}

TEST_F(WhereCliTest, FlagsOfAnEngineAreNotLostOnAServer) {
  for (const char* flag : {"--model", "--dtype", "--device"}) {
    const ProcessResult result =
        Run({"model", flag, flag == std::string("--dtype") ? "fp32" : Path("model")}, "",
            {"RECOLLECT_SERVER=127.0.0.1:1"});
    EXPECT_EQ(result.exit_code, kUsage) << flag;
    EXPECT_THAT(result.err, HasSubstr(std::string(flag) + " is for an engine of this process"));
    EXPECT_THAT(result.err, HasSubstr("127.0.0.1:1"));
  }
  EXPECT_EQ(Run({"model", "--model", Path("model"), "--data-dir", ":memory:"}, "",
                {"RECOLLECT_SERVER=127.0.0.1:1"})
                .exit_code,
            0);
}

TEST_F(WhereCliTest, AnUnknownOptionOfAFileIsNamedWithTheFile) {
  const std::string file = File("bad.toml", "data-dirr = \"x\"\n");
  const ProcessResult result = Run({"stats", "--config", file});
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_THAT(result.err, HasSubstr(file + ": there is no option 'data-dirr'\n"));
  const std::string outside = File("outside.toml", "http-listen = \"127.0.0.1:0\"\n");
  EXPECT_THAT(
      Run({"serve", "--config", outside}).err,
      HasSubstr("there is no option 'http-listen' for every command; it belongs under [serve]"));
}

TEST_F(WhereCliTest, AStringOfAFileThatIsNotClosedIsNamedWithItsLine) {
  for (const char* line :
       {"data-dir = \"x", "data-dir = 'x", "data-dir = x\"", "data-dir = \"x#y\""}) {
    const std::string file =
        File("bad.toml", absl::StrCat("# its \"\nlog-level = \"off\"\n", line));
    const ProcessResult result = Run({"stats", "--config", file});
    EXPECT_EQ(result.exit_code, kUsage) << line;
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat(file, ": line 3: a string is not closed")));
    EXPECT_THAT(result.err, HasSubstr(line));
  }
}

// As of a shell's variable that is not set: the default would be somebody's own documents.
TEST_F(WhereCliTest, AnEmptyNameOnTheCommandLineIsRefused) {
  for (const char* flag : {"--data-dir", "--store", "--server", "--model"}) {
    const ProcessResult result = Run({"docs", "list", flag, ""}, "", {"HOME=" + Path("home")});
    EXPECT_EQ(result.exit_code, kUsage) << flag;
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat(flag, ": empty")));
  }
}

TEST_F(WhereCliTest, ASizeMayHaveAFraction) {
  const auto bytes = [&](const std::string& size) {
    return Json(Run({"stats", "--json", "--model", Path("model"), "--data-dir",
                     ":memory:", "--chunk-states-budget", size}))["chunk_states_budget_bytes"];
  };
  EXPECT_EQ(bytes("1.5GiB"), 3 << 29);
  EXPECT_EQ(bytes("0.5 MiB"), 1 << 19);
  EXPECT_EQ(bytes("1.0001kb"), 1024);
}

// As editors on Windows write files.
TEST_F(WhereCliTest, AFileOfOptionsMayBeginWithAByteOrderMark) {
  const std::string file =
      File("c.toml", "\xef\xbb\xbfmodel = \"" + Path("model") + "\"\ndata-dir = \":memory:\"\n");
  EXPECT_EQ(Run({"stats", "--config", file}).exit_code, 0);
}

TEST_F(WhereCliTest, AnAddressThatIsNoneOfGrpcIsToldWhatItShouldBe) {
  const std::pair<const char*, const char*> cases[] = {
      {"http://127.0.0.1:8080",
       "server 'http://127.0.0.1:8080': expected HOST:PORT of gRPC (serve --grpc-listen), "
       "without http://"},
      {"https://host/v1", "without https://"},
      {"127.0.0.1", "server '127.0.0.1': expected HOST:PORT, the port from 1 to 65535"},
      {"localhost:", "expected HOST:PORT"},
      {"a:1,http://b:1", "server 'http://b:1': expected HOST:PORT of gRPC"}};
  for (const auto& [server, message] : cases) {
    const ProcessResult result = Run({"stats", "--server", server});
    EXPECT_EQ(result.exit_code, kInvalid) << server;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

TEST_F(WhereCliTest, ASizeThatIsNoneIsNamedAsItWasTyped) {
  for (const char* size : {"-1", "5XB", "1.5", "1.5B", "1.2.3MiB", ".MiB", "-1.5GiB",
                           "9999999999.5GiB", "99999999999999999999GiB", "", "many"}) {
    const ProcessResult result = Run({"stats", "--chunk-states-budget", size});
    EXPECT_EQ(result.exit_code, kUsage) << size;
    EXPECT_THAT(result.err, HasSubstr("'" + std::string(size) + "' is not a size")) << size;
    EXPECT_THAT(result.err, HasSubstr("--chunk-states-budget")) << size;
  }
}

TEST_F(WhereCliTest, AModelIsADirectoryOrAGgufFile) {
  const ProcessResult result =
      Run({"model", "--model", Path("model") + "/config.json", "--data-dir", ":memory:"});
  EXPECT_EQ(result.exit_code, kInvalid);
  EXPECT_THAT(result.err, HasSubstr("config.json: "));
}

}  // namespace
}  // namespace recollect
