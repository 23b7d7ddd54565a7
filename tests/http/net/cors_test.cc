// Pages of other sites.
#include "http/net/cors.h"

#include "http/net/hosts.h"
#include "tests/http/http_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CorsTest : public HttpTest {
 protected:
  void SetUp() override { StartWith({"https://App.example.org", "http://localhost:3000"}); }
  void StartWith(const std::vector<std::string>& origins) {
    const http::Cors cors = http::Cors::Create(origins).value();
    hosts_ = http::Hosts::Create("127.0.0.1:0", {}, true, cors).value();
    Start({.listen = "127.0.0.1:0",
           .model_name = "fake",
           .authorize = [this](const http::Request& request) { return hosts_.Admit(request); },
           .cors = cors});
  }
  std::string From(const std::string& origin, const std::string& method, const std::string& path,
                   const std::string& headers = "") const {
    return Ask(absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\nOrigin: ", origin,
                            "\r\nConnection: close\r\n", headers, "\r\n"));
  }

  http::Hosts hosts_;
};

constexpr char kAsks[] =
    "Access-Control-Request-Method: POST\r\n"
    "Access-Control-Request-Headers: authorization, x-stainless-os\r\n";

TEST_F(CorsTest, APageThatIsAllowedReadsAnswers) {
  for (const char* origin : {"https://app.example.org", "http://localhost:3000"}) {
    const std::string answer = From(origin, "GET", "/v1/models");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200")) << origin;
    EXPECT_THAT(answer, HasSubstr(absl::StrCat("Access-Control-Allow-Origin: ", origin, "\r\n")));
    EXPECT_THAT(answer, HasSubstr("Vary: Origin\r\n"));
  }
  const std::string error = From("http://localhost:3000", "GET", "/v1/nothing");
  EXPECT_THAT(error, StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(error, HasSubstr("Access-Control-Allow-Origin: http://localhost:3000\r\n"));
}

TEST_F(CorsTest, AndIsToldSoBeforeItSends) {
  const std::string answer =
      From("https://app.example.org", "OPTIONS", "/v1/chat/completions", kAsks);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer,
              HasSubstr("Access-Control-Allow-Methods: GET, HEAD, POST, PUT, PATCH, DELETE\r\n"));
  EXPECT_THAT(answer, HasSubstr("Access-Control-Allow-Headers: authorization, x-stainless-os\r\n"));
  EXPECT_THAT(answer, HasSubstr("Access-Control-Allow-Origin: https://app.example.org\r\n"));
}

TEST_F(CorsTest, OthersAreNot) {
  for (const char* origin : {"https://evil.example", "http://app.example.org", "null",
                             "https://app.example.org.evil.example", "http://localhost:3001"}) {
    const std::string asked = From(origin, "OPTIONS", "/v1/chat/completions", kAsks);
    EXPECT_THAT(asked, StartsWith("HTTP/1.1 403")) << origin;
    EXPECT_THAT(asked, Not(HasSubstr("Access-Control-"))) << origin;
    EXPECT_THAT(From(origin, "GET", "/v1/models"), Not(HasSubstr("Access-Control-"))) << origin;
  }
}

TEST_F(CorsTest, AllAreWithAStar) {
  StartWith({"*"});
  EXPECT_THAT(From("https://any.example", "GET", "/v1/models"),
              HasSubstr("Access-Control-Allow-Origin: https://any.example\r\n"));
}

TEST_F(CorsTest, WithoutOriginsNoAnswerSpeaksOfThem) {
  StartWith({});
  EXPECT_THAT(Ask(Get("/v1/models")), Not(HasSubstr("Vary:")));
}

TEST_F(CorsTest, WhatIsNoOriginIsRefused) {
  for (const char* origin : {"app.example.org", "https://", "https://a/", "https://a/b", "ftp://a",
                             "https://a b", "", "null", "https://a\r\nX: y", "**"})
    EXPECT_THAT(http::Cors::Create({origin}),
                StatusIs(absl::StatusCode::kInvalidArgument, "--http-cors-origins: '"))
        << origin;
}

}  // namespace
}  // namespace recollect
