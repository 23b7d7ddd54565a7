// Keys over HTTP.
#include <regex>

#include "http/net/authorize.h"
#include "tests/access/access_testing.h"
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using access::Right;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpAccessTest : public HttpTest {
 protected:
  void SetUp() override {
    keys_ = ::testing::TempDir() + "/recollect_http_keys";
    std::filesystem::remove(keys_);
    for (const access::Key& key :
         {KeyOf("full"), KeyOf("read", Right::kRead), KeyOf("a", Right::kFull, "a/")}) {
      ASSERT_THAT(access::AddKey(keys_, key), IsOk());
    }
    access::Key small = KeyOf("small", Right::kFull, "a/");
    small.quota = {.max_documents = 1, .max_sessions = 1, .tokens_per_minute = 1};
    ASSERT_THAT(access::AddKey(keys_, small), IsOk());
    guard_ = access::Guard::Open(keys_).value();
    Start({.listen = "127.0.0.1:0",
           .model_name = "fake",
           .authorize = [this](const http::Request& r) { return http::Authorize(*guard_, r); }});
    for (const char* id : {"a/1", "b/1"}) engine_.AddDocument(id, "text of it");
  }
  std::string Send(const std::string& method, const std::string& path, const std::string& sent,
                   const std::string& body = "") const {
    return Ask(absl::StrCat(
        method, " ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
        sent.empty() ? "" : absl::StrCat("Authorization: ", sent, "\r\n"),
        body.empty() ? "" : absl::StrCat("Content-Length: ", body.size(), "\r\n"), "\r\n", body));
  }
  std::string CompleteAs(const std::string& name, const std::string& mount) const {
    const json fields = {{"model", "fake"}, {"prompt", "x"}, {"mounts", {mount}}};
    return Send("POST", "/v1/completions", "Bearer secret-" + name, fields.dump());
  }

  std::string keys_;
  std::unique_ptr<access::Guard> guard_;
};

TEST_F(HttpAccessTest, HealthIsOpenAndNothingElseIs) {
  for (const char* path : {"/livez", "/readyz", "/health"})
    EXPECT_THAT(Send("GET", path, ""), StartsWith("HTTP/1.1 200")) << path;
  for (const char* path : {"/", "/page/app.js"})
    EXPECT_THAT(Send("GET", path, ""), testing::Not(StartsWith("HTTP/1.1 401"))) << path;
  // Paths that are built, that are planned and that are nothing.
  for (const char* path :
       {"/v1/models", "/v1/completions", "/v1/documents", "/v1/documents/a%2F1", "/v1/stats",
        "/metrics", "/tokenize", "/detokenize", "/none", "/livez/", "/pages", "//livez"}) {
    for (const char* method : {"GET", "POST", "PUT", "DELETE", "PATCH"})
      EXPECT_THAT(Send(method, path, ""), StartsWith("HTTP/1.1 401")) << method << " " << path;
  }
  for (const char* path : {"/livez", "/", "/page/app.js"})
    EXPECT_THAT(Send("DELETE", path, ""), StartsWith("HTTP/1.1 401")) << path;
}

TEST_F(HttpAccessTest, NoKeyAndAWrongOneAreToldTheSame) {
  const std::string none = Send("GET", "/v1/models", "");
  EXPECT_THAT(none, HasSubstr("\r\nWWW-Authenticate: Bearer\r\n"));
  EXPECT_EQ(Body(none)["error"]["code"], "unauthenticated");
  EXPECT_EQ(Body(none)["error"]["type"], "authentication_error");
  const auto unnumbered = [](const std::string& answer) {
    return std::regex_replace(answer, std::regex("X-Request-Id: [0-9]+\r\n"), "");
  };
  for (const char* sent : {"Bearer wrong", "Bearer", "secret-full", "Basic secret-full"})
    EXPECT_EQ(unnumbered(Send("GET", "/v1/models", sent)), unnumbered(none)) << sent;
  EXPECT_THAT(Send("GET", "/v1/models", "Bearer secret-read"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(CompleteAs("read", "b/1"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpAccessTest, WhoMayNotIngestMayNotSave) {
  const auto save = [&](const char* key, const char* id) {
    const json fields = {{"model", "fake"}, {"prompt", "x"}, {"save_as", id}};
    return Send("POST", "/v1/completions", absl::StrCat("Bearer secret-", key), fields.dump());
  };
  EXPECT_THAT(save("read", "c"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(save("read", "c"), HasSubstr("save_as"));
  EXPECT_THAT(save("a", "b/2"), StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(engine_.seen().generate.prompt.text, "") << "nothing was generated";
  EXPECT_THAT(save("a", "a/2"), HasSubstr("\"saved\""));
  EXPECT_THAT(save("small", "a/3"), StartsWith("HTTP/1.1 429")) << "its quota of documents is 1";
}

TEST_F(HttpAccessTest, AListHasWhatTheKeyMaySee) {
  const auto ids = [&](const std::string& name, const std::string& query) {
    const json list = Body(Send("GET", "/v1/documents" + query, "Bearer secret-" + name));
    std::vector<std::string> found;
    for (const json& document : list["data"]) found.push_back(document["id"]);
    return std::pair(found, list["has_more"] == true);
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(ids("read", ""), std::pair(Ids({"a/1", "b/1"}), false));
  EXPECT_EQ(ids("read", "?limit=1"), std::pair(Ids({"a/1"}), true));
  EXPECT_EQ(ids("a", ""), std::pair(Ids({"a/1"}), false));
  EXPECT_EQ(ids("a", "?limit=1"), std::pair(Ids({"a/1"}), false));
  EXPECT_EQ(ids("a", "?after=a%2F1"), std::pair(Ids(), false));
}

// Who sends the body behind the head reads the answer all the same.
TEST_F(HttpAccessTest, ARefusalIsReadByWhoIsStillSending) {
  const std::string answer = Send("POST", "/v1/completions", "", std::string(3 << 20, 'x'));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 401"));
  EXPECT_EQ(Body(answer)["error"]["code"], "unauthenticated");
}

TEST_F(HttpAccessTest, AKeyThatMayReadMayNotWrite) {
  for (const char* method : {"PUT", "DELETE", "PATCH"}) {
    const std::string answer = Send(method, "/v1/documents/a%2F1", "Bearer secret-read");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 403"));
    EXPECT_EQ(Body(answer)["error"]["type"], "permission_error");
    EXPECT_EQ(Body(answer)["error"]["message"],
              absl::StrCat("key 'read' has the right 'read', ", method, " needs 'full'"));
    EXPECT_THAT(Send(method, "/v1/documents/a%2F1", "Bearer secret-full"),
                testing::Not(StartsWith("HTTP/1.1 40[13]")));
  }
}

TEST_F(HttpAccessTest, AKeyThatMayReadMayNotAppend) {
  const std::string path = "/v1/documents/a%2F1/append";
  const std::string answer = Send("POST", path, "Bearer secret-read", " more");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(Body(answer)["error"]["message"], "key 'read' has the right 'read', POST needs 'full'");
  EXPECT_EQ(engine_.ReadText("a/1", 0, 10).value(), "text of it");
  EXPECT_THAT(Send("POST", "/v1/documents/b%2F1/append", "Bearer secret-a", " more"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Send("POST", path, "Bearer secret-a", " more"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(engine_.ReadText("a/1", 0, 15).value(), "text of it more");
}

TEST_F(HttpAccessTest, OutsideItsPrefixAKeyCanDoNothing) {
  EXPECT_THAT(CompleteAs("a", "a/1"), StartsWith("HTTP/1.1 200"));
  for (const char* id : {"b/1", "none"}) {
    const std::string answer = CompleteAs("a", id);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 403"));
    EXPECT_THAT(answer, HasSubstr("is for ids that begin with 'a/'"));
  }
  const auto status = [&](const char* path) {
    return Send("GET", path, "Bearer secret-a").substr(9, 3);
  };
  for (const char* path : {"/v1/documents/b%2F1", "/v1/documents/b%2f1/text", "/v1/documents/a",
                           "/v1/documents/A%2F1", "/v1/documents/%62%2F1"}) {
    EXPECT_EQ(status(path), "403") << path;
  }
  for (const char* path : {"/v1/documents/a%2F1", "/v1/documents/%61%2f1/text"})
    EXPECT_NE(status(path), "403") << path;
  for (const char* path : {"/v1/documents/a%2", "/v1/documents/a%zz", "/v1/documents/%"})
    EXPECT_EQ(status(path), "400") << path;
}

TEST_F(HttpAccessTest, AReloadedFileCountsForTheNextRequest) {
  ASSERT_THAT(access::RemoveKey(keys_, "read"), IsOk());
  EXPECT_THAT(CompleteAs("read", "b/1"), StartsWith("HTTP/1.1 200"));
  ASSERT_THAT(guard_->Reload(), IsOk());
  EXPECT_THAT(CompleteAs("read", "b/1"), StartsWith("HTTP/1.1 401"));
}

TEST_F(HttpAccessTest, ARevokedKeyEndsItsUploadAtTheNextPiece) {
  const Socket socket(server_->address());
  socket.Send(
      "PUT /v1/documents/new HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-full\r\n"
      "Accept: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwords\r\n");
  EXPECT_THAT(socket.ReadUntil("accepted_bytes"), StartsWith("HTTP/1.1 200"));
  ASSERT_THAT(access::RemoveKey(keys_, "full"), IsOk());
  ASSERT_THAT(guard_->Reload(), IsOk());
  socket.Send("5\r\nwords\r\n");
  EXPECT_THAT(socket.ReadUntil("unauthenticated"), HasSubstr("authentication_error"));
}

TEST_F(HttpAccessTest, WhatIsBeyondTheQuotaIs429AndSaysWhenToComeAgain) {
  EXPECT_THAT(CompleteAs("small", "a/1"), StartsWith("HTTP/1.1 200"));
  const std::pair<const char*, const char*> calls[] = {{"/v1/completions", "prompt"},
                                                       {"/v1/score", "prompt"},
                                                       {"/v1/retrieve", "query"},
                                                       {"/v1/embeddings", "input"}};
  for (const auto& [path, text] : calls) {
    const json fields = {{"model", "fake"}, {text, "x"}};
    const std::string refused = Send("POST", path, "Bearer secret-small", fields.dump());
    EXPECT_THAT(refused, StartsWith("HTTP/1.1 429")) << path;
    EXPECT_EQ(Body(refused)["error"]["type"], "rate_limit_error") << path;
    std::smatch seconds;
    ASSERT_TRUE(std::regex_search(refused, seconds, std::regex("\r\nRetry-After: ([0-9]+)\r\n")));
    EXPECT_GT(std::stoi(seconds[1]), 60) << "several tokens over one a minute";
  }
  EXPECT_THAT(Send("PUT", "/v1/documents/a%2F2", "Bearer secret-small", "text"),
              StartsWith("HTTP/1.1 429"))
      << "a/1 is there";
  EXPECT_THAT(CompleteAs("full", "a/1"), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace recollect
