// Which web pages a server without keys answers.
#include "http/net/hosts.h"

#include "tests/http/http_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpHostsTest : public HttpTest {
 protected:
  void SetUp() override { StartWith("127.0.0.1:0", {"docs.example.org", "Mixed_Case"}); }
  void StartWith(const std::string& listen, const std::vector<std::string>& names,
                 bool check_host = true) {
    hosts_ = http::Hosts::Create(listen, names, check_host).value();
    Start({.listen = "127.0.0.1:0",
           .model_name = "fake",
           .authorize = [this](const http::Request& request) { return hosts_.Admit(request); }});
    engine_.AddDocument("secret", "text of it");
  }
  std::string Send(const std::string& method, const std::string& path, const std::string& headers,
                   const std::string& body = "") const {
    return Ask(absl::StrCat(method, " ", path, " HTTP/1.1\r\n", headers,
                            "Connection: close\r\nContent-Length: ", body.size(), "\r\n\r\n",
                            body));
  }
  std::string Read(const std::string& host) const {
    return Send("GET", "/v1/documents/secret/text", absl::StrCat("Host: ", host, "\r\n"));
  }
  std::string From(const std::string& origin, const std::string& method, const std::string& path,
                   const std::string& body = "") const {
    return Send(method, path,
                absl::StrCat("Host: 127.0.0.1:8080\r\nContent-Type: text/plain\r\nOrigin: ", origin,
                             "\r\n"),
                body);
  }

  http::Hosts hosts_;
};

TEST_F(HttpHostsTest, AddressesLocalhostAndNamesThatWereGivenAreAnswered) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8080", "127.0.1.1:1", "[::1]:8080", "[::1]", "192.168.7.9:8080",
        "localhost", "localhost:8080", "LOCALHOST:8080", "localhost.", "page.localhost:8080",
        "docs.example.org", "docs.example.org:443", "Docs.Example.Org.:443", "mixed_case"})
    EXPECT_THAT(Read(host), StartsWith("HTTP/1.1 200")) << host;
  EXPECT_THAT(Ask("GET /v1/models HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200")) << "no browser";
}

// The host of a target counts, whatever Host says.
TEST_F(HttpHostsTest, SoIsTheHostOfATarget) {
  const std::string path = "/v1/documents/secret/text";
  EXPECT_THAT(Send("GET", "http://evil.example" + path, "Host: localhost\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Send("GET", "http://localhost:8080" + path, "Host: evil.example\r\n"),
              StartsWith("HTTP/1.1 200"));
}

// As a page asks whose name was made to mean this machine's address.
TEST_F(HttpHostsTest, AnotherNameIsRefusedAndNamed) {
  for (const char* host :
       {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
        "evillocalhost", "docs.example.org.evil.example", "x.docs.example.org", "example.org",
        "::1", "[evil.example]", ":8080", "127.1", "localhost..", "."}) {
    const std::string answer = Read(host);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 403")) << host;
    EXPECT_THAT(answer, Not(HasSubstr("text of it"))) << host;
  }
  const nlohmann::json error = Body(Read("evil.example:8080"))["error"];
  EXPECT_EQ(error["type"], "permission_error");
  EXPECT_EQ(error["message"],
            "Host: 'evil.example:8080' is no name of this server, which asks for no keys and "
            "therefore answers only to IP addresses, localhost and its names: start it with "
            "--http-hosts evil.example to allow that name, or with --keys");
  EXPECT_THAT(Read("evil\x01.example"), Not(HasSubstr("text of it")));
  EXPECT_THAT(Read(std::string(5000, 'e')), HasSubstr("--http-hosts NAME"));
  for (const char* path : {"/", "/page/app.js", "/metrics", "/v1/stats", "/v1/documents", "/none"})
    EXPECT_THAT(Send("GET", path, "Host: evil.example\r\n"), StartsWith("HTTP/1.1 403")) << path;
  for (const char* path : {"/livez", "/readyz", "/health"})
    EXPECT_THAT(Send("GET", path, "Host: evil.example\r\n"), StartsWith("HTTP/1.1 200")) << path;
}

TEST_F(HttpHostsTest, TheNameThatIsListenedOnIsAnswered) {
  StartWith("my-machine:8080", {});
  EXPECT_THAT(Read("my-machine:8080"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Read("docs.example.org"), StartsWith("HTTP/1.1 403"));
  StartWith("[::1]:8080", {});
  EXPECT_THAT(Read("[::1]:8080"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpHostsTest, APageOfAnotherSiteCanDoNothing) {
  const std::string ask = R"({"model": "fake", "prompt": "x"})";
  // What a page may send to any server without asking it first: text/plain.
  for (const char* origin :
       {"http://evil.example", "https://evil.example:8080", "null", "http://127.0.0.1:3000",
        "http://localhost:8080", "http://127.0.0.1", "http://127.0.0.1:8080.evil.example",
        "http://my-machine:8080", "chrome-extension://abcdef", "127.0.0.1:8080", "http://"}) {
    EXPECT_THAT(From(origin, "POST", "/v1/completions", ask), StartsWith("HTTP/1.1 403")) << origin;
    EXPECT_THAT(From(origin, "PUT", "/v1/documents/new", "words"), StartsWith("HTTP/1.1 403"));
    EXPECT_THAT(From(origin, "DELETE", "/v1/documents/secret"), StartsWith("HTTP/1.1 403"));
    EXPECT_THAT(From(origin, "GET", "/v1/documents"), StartsWith("HTTP/1.1 403"));
    EXPECT_THAT(From(origin, "OPTIONS", "/v1/completions"), StartsWith("HTTP/1.1 403"));
    EXPECT_THAT(From(origin, "OPTIONS", "/v1/completions"), Not(HasSubstr("Access-Control-Allow")));
  }
  EXPECT_TRUE(engine_.GetDocument("secret").ok());
  EXPECT_FALSE(engine_.GetDocument("new").ok());
  EXPECT_EQ(Body(From("http://evil.example", "POST", "/v1/completions", ask))["error"]["message"],
            "Origin: 'http://evil.example' is a page of another site than '127.0.0.1:8080', and "
            "this server asks for no keys: start it with --http-hosts evil.example to allow that "
            "name, or with --keys");
  // The server's own page, and one behind a proxy under a name that was given.
  for (const char* origin : {"http://127.0.0.1:8080", "https://127.0.0.1:8080",
                             "https://docs.example.org", "https://docs.example.org:8443"})
    EXPECT_THAT(From(origin, "POST", "/v1/completions", ask), StartsWith("HTTP/1.1 200")) << origin;
  EXPECT_THAT(From("http://127.0.0.1:8080", "DELETE", "/v1/documents/secret"),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpHostsTest, WhereAnyNameWillDoAPageOfAnotherSiteStillCannot) {
  StartWith("0.0.0.0:8080", {}, /*check_host=*/false);
  EXPECT_THAT(Read("recollect.internal:8080"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Send("GET", "/v1/models",
                   "Host: recollect.internal\r\nOrigin: http://recollect.internal\r\n"),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(From("http://evil.example", "DELETE", "/v1/documents/secret"),
              StartsWith("HTTP/1.1 403"));
}

TEST_F(HttpHostsTest, NothingCanBeShownOrRunByAnotherSite) {
  for (const std::string& answer : {Read("localhost"), Read("evil.example"), Ask(Get("/livez"))}) {
    EXPECT_THAT(answer, HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"));
    EXPECT_THAT(answer, HasSubstr("\r\nCross-Origin-Resource-Policy: same-origin\r\n"));
    EXPECT_THAT(answer, Not(HasSubstr("Access-Control-Allow")));
  }
}

TEST(HostsTest, WhatIsNoNameIsRefused) {
  for (const char* name : {"", "a:80", "http://a", "a/b", "a b", "*", "[::1]", "ä.example"})
    EXPECT_THAT(http::Hosts::Create("127.0.0.1:0", {name}, true),
                StatusIs(absl::StatusCode::kInvalidArgument, "--http-hosts: '"))
        << name;
  EXPECT_THAT(http::Hosts::Create("127.0.0.1:0", {std::string(254, 'a')}, true),
              StatusIs(absl::StatusCode::kInvalidArgument, "expected a host name"));
}

}  // namespace
}  // namespace recollect
