// API keys on the command line: made, listed, revoked, and asked for where others could come in.
#include <sys/stat.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "tests/cli/cli_testing.h"
#include "tests/support/certificates.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class KeysCliTest : public CliTest {
 protected:
  ProcessResult Keys(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "keys");
    arguments.insert(arguments.end(), {"--keys", Path("keys")});
    return Run(arguments);
  }
  ProcessResult Serve(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "serve");
    arguments.insert(arguments.end(), {"--model", Path("model"), "--data-dir", ":memory:"});
    return Run(arguments);
  }
};

TEST_F(KeysCliTest, AKeyIsShownOnceAndOnlyItsHashIsKept) {
  const ProcessResult made = Keys({"create", "ci", "--right", "full", "--prefix", "a/"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  ASSERT_EQ(made.out.size(), 47u) << made.out;
  const std::string secret = made.out.substr(0, 46);
  EXPECT_THAT(made.err, HasSubstr("shown only now"));
  const std::string file = ReadFile(Path("keys"));
  EXPECT_EQ(file, absl::StrCat(R"({"name": "ci", "sha256": ")", Sha256Hex(secret),
                               R"(", "right": "full", "prefix": "a/"})", "\n"));
  EXPECT_THAT(Keys({"list"}).out, HasSubstr("ci"));
  EXPECT_THAT(Keys({"list"}).out, Not(HasSubstr(secret)));
}

TEST_F(KeysCliTest, KeysAreListedAndRevokedByName) {
  const auto made = Json(Keys({"create", "ci", "--json"}));
  EXPECT_EQ(made["right"], "read");
  EXPECT_EQ(made["key"].get<std::string>().size(), 46u);
  EXPECT_EQ(Keys({"create", "web", "--right", "full", "--prefix", "w/"}).exit_code, 0);
  const nlohmann::json expected = {{{"name", "ci"}, {"right", "read"}},
                                   {{"name", "web"}, {"right", "full"}, {"prefix", "w/"}}};
  EXPECT_EQ(Json(Keys({"list", "--json"}))["keys"], expected);
  EXPECT_EQ(Keys({"create", "web"}).exit_code, kConflict);
  EXPECT_EQ(Keys({"revoke", "ci"}).exit_code, 0);
  EXPECT_EQ(Json(Keys({"list", "--json"}))["keys"].size(), 1u);
  const ProcessResult again = Keys({"revoke", "ci"});
  EXPECT_EQ(again.exit_code, kNotFound);
  EXPECT_THAT(again.err, HasSubstr(Path("keys") + ": there is no key 'ci'"));
}

TEST_F(KeysCliTest, WrongUseIsNamed) {
  EXPECT_EQ(Keys({}).exit_code, kUsage);
  EXPECT_EQ(Keys({"create"}).exit_code, kUsage);
  EXPECT_EQ(Keys({"create", "ci", "--right", "admin"}).exit_code, kUsage);
  EXPECT_THAT(Keys({"create", "c i"}).err, HasSubstr("name: 'c i'"));
  EXPECT_THAT(Keys({"create", "ci", "--prefix", std::string(257, 'p')}).err,
              HasSubstr("prefix: 257 bytes"));
  EXPECT_THAT(Keys({"create", "ci", "--prefix", "\xff"}).err, HasSubstr("--prefix"));
  EXPECT_EQ(Keys({"list"}).exit_code, kNotFound);
  const ProcessResult nowhere = Run({"keys", "create", "ci"});
  EXPECT_EQ(nowhere.exit_code, kInvalid);
  EXPECT_THAT(nowhere.err, HasSubstr("--keys FILE"));
}

TEST_F(KeysCliTest, NobodyElseIsListenedToWithoutKeys) {
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    for (const char* flag : {"--grpc-listen", "--http-listen"}) {
      const ProcessResult refused = Serve({flag, address});
      EXPECT_EQ(refused.exit_code, kInvalid) << flag;
      EXPECT_THAT(refused.err, HasSubstr(absl::StrCat(flag, ": ", address, " may be reached")));
      EXPECT_THAT(refused.err, HasSubstr("--keys FILE"));
    }
  }
}

TEST_F(KeysCliTest, AServerDoesNotStartWithoutTheKeysThatItWasTold) {
  const ProcessResult missing = Serve({"--keys", Path("keys")});
  EXPECT_EQ(missing.exit_code, kNotFound);
  EXPECT_THAT(missing.err, HasSubstr(Path("keys")));
  const ProcessResult bad = Serve({"--keys", File("keys", "{}\n")});
  EXPECT_EQ(bad.exit_code, kInvalid);
  EXPECT_THAT(bad.err, HasSubstr(Path("keys") + ": line 1: name: ''"));
}

TEST_F(KeysCliTest, AServerDoesNotStartWithoutTheCertificateThatItWasTold) {
  const auto serve = [&](const TestCertificate& made) {
    return Serve({"--tls-cert", File("crt", made.certificate), "--tls-key", File("key", made.key)});
  };
  const TestCertificate good = MakeCertificate();
  const ProcessResult expired = serve(MakeCertificate(-absl::Hours(2), -absl::Hours(1)));
  EXPECT_EQ(expired.exit_code, kConflict);
  EXPECT_THAT(expired.err, HasSubstr(Path("crt") + ": expired on 20"));
  const ProcessResult other = serve({good.certificate, MakeCertificate().key});
  EXPECT_EQ(other.exit_code, kInvalid);
  EXPECT_THAT(other.err, HasSubstr(Path("key") + ": not the key of the first certificate in"));
  const ProcessResult half = Serve({"--tls-cert", Path("crt")});
  EXPECT_EQ(half.exit_code, kInvalid);
  EXPECT_THAT(half.err, HasSubstr("--tls-cert and --tls-key: give both or none"));
  const ProcessResult missing = Serve({"--tls-cert", Path("crt"), "--tls-key", Path("none")});
  EXPECT_EQ(missing.exit_code, kNotFound);
  EXPECT_THAT(missing.err, HasSubstr(Path("none")));
}

TEST_F(KeysCliTest, TrustedCertificatesComeFromAFileThatHasSome) {
  const auto stats = [&](const std::string& file) {
    return Run({"stats", "--server", "127.0.0.1:1", "--tls-ca", file});
  };
  EXPECT_EQ(stats(Path("none")).exit_code, kNotFound);
  const ProcessResult empty = stats(File("empty", ""));
  EXPECT_EQ(empty.exit_code, kInvalid);
  EXPECT_THAT(empty.err, HasSubstr(Path("empty") + ": no certificate in it"));
}

TEST_F(KeysCliTest, TheFileOfTheOwnKeyIsNamedAndNotShown) {
  const auto stats = [&](const std::string& file) {
    return Run({"stats", "--server", "127.0.0.1:1", "--api-key-file", file});
  };
  EXPECT_EQ(stats(Path("none")).exit_code, kNotFound);
  EXPECT_THAT(stats(File("empty", " \nsecret\n")).err, HasSubstr("empty: no key in it"));
  const ProcessResult odd = stats(File("odd", "sec ret\n"));
  EXPECT_EQ(odd.exit_code, kInvalid);
  EXPECT_THAT(odd.err, HasSubstr("visible ASCII"));
  EXPECT_THAT(odd.err, Not(HasSubstr("sec ret")));
  EXPECT_EQ(stats(File("marked", "\xef\xbb\xbfsecret\n")).exit_code, kUnavailable)
      << "a byte order mark is no part of the key";
}

TEST_F(KeysCliTest, AKeyMayHaveAQuota) {
  const ProcessResult made = Keys({"create", "ci", "--max-documents", "3", "--max-bytes", "2MiB",
                                   "--max-sessions", "4", "--tokens-per-minute", "60000"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  const nlohmann::json expected = {{{"name", "ci"},
                                    {"right", "read"},
                                    {"max_documents", 3},
                                    {"max_bytes", 2 << 20},
                                    {"max_sessions", 4},
                                    {"tokens_per_minute", 60000}}};
  EXPECT_EQ(Json(Keys({"list", "--json"}))["keys"], expected);
  EXPECT_THAT(Keys({"list"}).out, HasSubstr("max_bytes 2097152  max_sessions 4"));
  for (const char* value : {"0", "-1", "many"})
    EXPECT_EQ(Keys({"create", "web", "--max-sessions", value}).exit_code, kUsage) << value;
}

}  // namespace
}  // namespace recollect
