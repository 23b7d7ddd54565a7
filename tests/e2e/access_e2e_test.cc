// API keys of the program `recollect`: made by it, asked for by its server, sent by its client.
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/e2e/server_testing.h"
#include "tests/http/http_testing.h"
#include "tests/support/certificates.h"
#include "tests/support/status_matchers.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kInvalid = 4, kUnavailable = 5, kNoAccess = 10;
constexpr auto kUnknown = absl::StatusCode::kUnauthenticated;

class AccessE2eTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    secret_ = Create("first");
    auto arguments = Serve(Path("model"), "auto");
    arguments.insert(arguments.end(), {"--http-listen", "127.0.0.1:0", "--keys", Path("keys")});
    // Its log, of errors alone, comes with the ready line.
    arguments.insert(arguments.begin(), {"/bin/sh", "-c", R"(exec "$@" 2>&1)", "sh"});
    Start(arguments);
  }
  std::string Create(const std::string& name) const {
    const ProcessResult made =
        Run({"keys", "create", name, "--right", "full", "--keys", Path("keys")});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return made.out.substr(0, made.out.find('\n'));
  }
  absl::Status Ask(const std::string& secret) const {
    return client::Client::Connect(address_, {.api_key = secret}).value()->GetStats().status();
  }
  std::string AskHttp(const std::string& secret) const {
    const Socket socket(http_);
    socket.Send(
        "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " +
        secret + "\r\n\r\n");
    return socket.ReadAll();
  }
  // A signal is not answered: asks until the answer is another one.
  absl::Status AskUntilChanged(const std::string& secret) const {
    const absl::StatusCode before = Ask(secret).code();
    server_->Signal(SIGHUP);
    const absl::Time end = absl::Now() + absl::Minutes(1);
    absl::Status now = Ask(secret);
    while (now.code() == before && absl::Now() < end) now = Ask(secret);
    return now;
  }

  std::string secret_;
};

TEST_F(AccessE2eTest, TheCommandLineSendsItsKey) {
  const std::vector<std::string> stats = {"stats", "--server", address_};
  const ProcessResult without = Run(stats);
  EXPECT_EQ(without.exit_code, kNoAccess);
  EXPECT_THAT(without.err, HasSubstr("UNAUTHENTICATED"));
  EXPECT_EQ(Run(stats, "", {"RECOLLECT_API_KEY=" + secret_}).exit_code, 0);
  EXPECT_EQ(Run(stats, "", {"RECOLLECT_API_KEY=wrong"}).exit_code, kNoAccess);
  const std::string file = File("secret", secret_ + "\n");
  EXPECT_EQ(Run({"ingest", "--id", "d", "-", "--server", address_, "--api-key-file", file},
                "a text of a few words")
                .exit_code,
            0);
  EXPECT_EQ(Run({"docs", "list", "--server", address_}, "",
                {"RECOLLECT_API_KEY=wrong", "RECOLLECT_API_KEY_FILE=" + file})
                .exit_code,
            0);
  EXPECT_THAT(AskHttp(secret_), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(AskHttp("wrong"), StartsWith("HTTP/1.1 401"));
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(AccessE2eTest, SighupTakesNewKeysAndRefusesRevokedOnes) {
  const std::string second = Create("second");
  EXPECT_THAT(Ask(second), StatusIs(kUnknown, "")) << "not before the signal";
  EXPECT_THAT(AskUntilChanged(second), IsOk());
  EXPECT_THAT(AskHttp(second), StartsWith("HTTP/1.1 200"));
  ASSERT_EQ(Run({"keys", "revoke", "first", "--keys", Path("keys")}).exit_code, 0);
  EXPECT_THAT(Ask(secret_), IsOk()) << "not before the signal";
  EXPECT_THAT(AskUntilChanged(secret_), StatusIs(kUnknown, ""));
  EXPECT_THAT(AskHttp(secret_), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Ask(second), IsOk());
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(AccessE2eTest, ABadFileAtSighupLeavesTheKeysAndIsLogged) {
  WriteFile(Path("keys"), "# none\n{\n");
  server_->Signal(SIGHUP);
  EXPECT_THAT(server_->ReadLine(), HasSubstr("the keys stay as they were: INVALID_ARGUMENT: " +
                                             Path("keys") + ": line 2: not a JSON object"));
  EXPECT_THAT(Ask(secret_), IsOk());
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(AccessE2eTest, WithoutKeysOnLoopbackSighupChangesNothing) {
  EXPECT_EQ(StopServer(), 0);
  StartServer(Path("model"));
  server_->Signal(SIGHUP);
  EXPECT_THAT(Ask(""), IsOk());
  EXPECT_EQ(StopServer(), 0);
}

// A browser on the server's machine reaches it too, for whatever page it shows.
TEST_F(AccessE2eTest, WithoutKeysOnLoopbackPagesOfOtherSitesAreRefused) {
  const auto status = [&](const std::string& headers, const std::string& key = "") {
    const Socket socket(http_);
    socket.Send(absl::StrCat("GET /v1/documents HTTP/1.1\r\nConnection: close\r\n", headers,
                             key.empty() ? "" : "Authorization: Bearer " + key + "\r\n", "\r\n"));
    return socket.ReadAll().substr(9, 3);
  };
  const std::string foreign = "Host: evil.example\r\n";
  const std::string foreign_page = "Host: localhost\r\nOrigin: http://evil.example\r\n";
  EXPECT_EQ(status(foreign, secret_), "200") << "a page has no key";
  EXPECT_EQ(status(foreign_page, secret_), "200");
  EXPECT_EQ(StopServer(), 0);
  StartHttp();
  EXPECT_EQ(status("Host: " + http_ + "\r\n"), "200");
  EXPECT_EQ(status("Host: localhost\r\n"), "200");
  EXPECT_EQ(status(foreign), "403");
  EXPECT_EQ(status(foreign_page), "403");
  EXPECT_EQ(StopServer(), 0);

  auto arguments = Serve(Path("model"), "auto");
  arguments.insert(arguments.end(), {"--http-listen", "127.0.0.1:0", "--http-hosts",
                                     "docs.example.org,evil.example"});
  Start(arguments);
  EXPECT_EQ(status(foreign), "200");
  EXPECT_EQ(status("Host: other.example\r\n"), "403");
  EXPECT_EQ(StopServer(), 0);

  const auto everywhere = [&](const std::vector<std::string>& more) {
    auto insecure = Serve(Path("model"), "auto");
    insecure.insert(insecure.end(), {"--http-listen", "0.0.0.0:0", "--insecure"});
    insecure.insert(insecure.end(), more.begin(), more.end());
    Start(insecure);
  };
  everywhere({});
  EXPECT_EQ(status(foreign), "200") << "by what name it is reached, nobody has said";
  EXPECT_EQ(status(foreign_page), "403");
  EXPECT_EQ(StopServer(), 0);
  everywhere({"--http-hosts", "docs.example.org"});
  EXPECT_EQ(status(foreign), "403");
  EXPECT_EQ(status("Host: docs.example.org\r\n"), "200");
  EXPECT_EQ(StopServer(), 0);
  const ProcessResult wrong =
      Run({"serve", "--model", Path("model"), "--data-dir", ":memory:", "--http-listen",
           "127.0.0.1:0", "--http-hosts", "docs.example.org:8080"});
  EXPECT_EQ(wrong.exit_code, kInvalid);
  EXPECT_THAT(wrong.err, HasSubstr("--http-hosts: 'docs.example.org:8080', expected a host name"));
}

TEST_F(AccessE2eTest, PagesOfTheOriginsThatWereGivenReadAnswers) {
  EXPECT_EQ(StopServer(), 0);
  auto arguments = Serve(Path("model"), "auto");
  arguments.insert(arguments.end(), {"--http-listen", "127.0.0.1:0", "--http-cors-origins",
                                     "https://app.example.org,http://localhost:3000"});
  Start(arguments);
  const auto ask = [&](const std::string& origin) {
    const Socket socket(http_);
    socket.Send(absl::StrCat("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: ", origin,
                             "\r\nConnection: close\r\n\r\n"));
    return socket.ReadAll();
  };
  for (const char* origin : {"https://app.example.org", "http://localhost:3000"}) {
    EXPECT_THAT(ask(origin), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(ask(origin),
                HasSubstr(absl::StrCat("\r\nAccess-Control-Allow-Origin: ", origin, "\r\n")));
  }
  EXPECT_THAT(ask("https://evil.example"), StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(StopServer(), 0);
}

// With TLS on both listeners: what is served, and to whom; a certificate is changed meanwhile.
TEST_F(AccessE2eTest, TlsOnBothListeners) {
  EXPECT_EQ(StopServer(), 0);
  const TestCertificate first = MakeCertificate(), second = MakeCertificate();
  auto arguments = Serve(Path("model"), "auto");
  arguments.insert(arguments.begin(), {"/bin/sh", "-c", R"(exec "$@" 2>&1)", "sh"});
  arguments.insert(arguments.end(),
                   {"--http-listen", "127.0.0.1:0", "--tls-cert", File("crt", first.certificate),
                    "--tls-key", File("key", first.key)});
  ASSERT_NO_FATAL_FAILURE(StartProcess(arguments));

  const auto ingest = [&](const std::string& trusted) {
    return Run({"ingest", "--id", "d", "-", "--server", address_, "--tls-ca", trusted}, Text(3000))
        .exit_code;
  };
  const auto curl = [&](const std::string& trusted) {
    return RunProcess({"curl", "--silent", "--show-error", "--cacert", trusted,
                       "https://" + http_ + "/v1/models"});
  };
  const std::string trust_first = File("first", first.certificate);
  const std::string trust_second = File("second", second.certificate);
  EXPECT_EQ(ingest(trust_first), 0);
  EXPECT_THAT(curl(trust_first).out, HasSubstr("\"object\":\"list\""));
  EXPECT_EQ(ingest(trust_second), kUnavailable);
  EXPECT_EQ(curl(trust_second).exit_code, 60);  // who it is cannot be verified

  WriteFile(Path("key"), second.key);
  server_->Signal(SIGHUP);
  EXPECT_THAT(server_->ReadLine(), HasSubstr("the certificate stays as it was: INVALID_ARGUMENT"));
  EXPECT_THAT(curl(trust_first).out, HasSubstr("list"));
  WriteFile(Path("crt"), second.certificate);
  server_->Signal(SIGHUP);
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (curl(trust_second).exit_code != 0 && absl::Now() < end) {
  }
  EXPECT_THAT(curl(trust_second).out, HasSubstr("list"));
  EXPECT_EQ(ingest(trust_second), 0);
  EXPECT_EQ(StopServer(), 0);
}

}  // namespace
}  // namespace recollect
