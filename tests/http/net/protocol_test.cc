// What RFC 9110 and 9112 ask of a server, beyond what clients of ours send.
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Waits for the end of a connection unless the answer says that it is kept.
TEST_F(HttpTest, AClientOfHttp10ThatKeepsItsConnectionIsToldSo) {
  const Socket socket(server_->address());
  const std::string request = "GET /livez HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
  for (int i = 0; i < 2; ++i) {
    socket.Send(request);
    const std::string answer = socket.ReadUntil("}");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, HasSubstr("\r\nConnection: keep-alive\r\n"));
    EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: "));
  }
  socket.Send("GET /livez HTTP/1.0\r\n\r\n");
  EXPECT_THAT(socket.ReadAll(), HasSubstr("\r\nConnection: close\r\n"));
  // Where only the end of the connection says that an answer is whole.
  const std::string streamed =
      Ask("POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 46\r\n\r\n"
          R"({"model": "fake", "prompt": "x","stream":true})");
  EXPECT_THAT(streamed, HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(streamed, Not(HasSubstr("Transfer-Encoding")));
  EXPECT_TRUE(streamed.ends_with("data: [DONE]\n\n"));
}

TEST_F(HttpTest, AClientOfHttp11KeepsItsConnectionWithoutBeingTold) {
  const Socket socket(server_->address());
  socket.Send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(socket.ReadUntil("}"), Not(HasSubstr("\r\nConnection: ")));
}

TEST_F(HttpTest, ARequestNamesItsHost) {
  const auto ask = [&](const std::string& line, const std::string& headers) {
    return Ask(absl::StrCat(line, "\r\nConnection: close\r\n", headers, "\r\n"));
  };
  for (const char* host : {"", "Host:\r\n", "Host: \r\n", "Host: a\r\nHost: a\r\n"})
    EXPECT_THAT(ask("GET /livez HTTP/1.1", host), StartsWith("HTTP/1.1 400 ")) << host;
  EXPECT_EQ(Body(ask("GET /livez HTTP/1.1", ""))["error"]["message"],
            "Host: missing or empty, expected the server's name");
  EXPECT_THAT(ask("GET /livez HTTP/1.0", ""), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("GET /livez HTTP/1.0", "Host:\r\n"), StartsWith("HTTP/1.1 400 "));
  // Of a target with a host the header says nothing.
  EXPECT_THAT(ask("GET http://localhost:80/livez HTTP/1.1", "Host:\r\n"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("GET http:///livez HTTP/1.1", "Host:\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpTest, AnEmptyLineBeforeARequestIsPassedOver) {
  EXPECT_THAT(Ask("\r\n" + Get("/livez")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask("\r\n\r\n" + Get("/livez")), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("\n" + Get("/livez")), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("\r" + Get("/livez")), StartsWith("HTTP/1.1 400 "));
  // As some clients send it behind a body, and in two parts.
  const Socket socket(server_->address());
  socket.Send(Post("/tokenize", "[]", "") + "\r");
  EXPECT_THAT(socket.ReadUntil("}}"), StartsWith("HTTP/1.1 400 "));
  socket.Send("\n" + Get("/livez"));
  EXPECT_THAT(socket.ReadAll(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpTest, ATextThatAClientHasIsNotSentAgain) {
  engine_.AddDocument("d", "a document of some length");
  const auto ask = [&](const std::string& method, const std::string& headers) {
    return Ask(absl::StrCat(method, " /v1/documents/d/text HTTP/1.1\r\nHost: x\r\n", headers,
                            "Connection: close\r\n\r\n"));
  };
  const std::string whole = ask("GET", "");
  const size_t at = whole.find("ETag: ");
  ASSERT_NE(at, std::string::npos);
  const std::string tag = whole.substr(at + 6, whole.find("\r\n", at) - at - 6);
  for (const std::string& names : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    for (const char* method : {"GET", "HEAD"}) {
      const std::string answer = ask(method, absl::StrCat("If-None-Match: ", names, "\r\n"));
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 304 Not Modified\r\n")) << names;
      EXPECT_THAT(answer, HasSubstr("\r\nETag: " + tag + "\r\n"));
      EXPECT_THAT(answer, Not(HasSubstr("Content-Length")));
      EXPECT_TRUE(answer.ends_with("\r\n\r\n"));
    }
  }
  EXPECT_THAT(ask("GET", "If-None-Match: \"other\"\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("GET", absl::StrCat("Range: bytes=0-1\r\nIf-None-Match: ", tag, "\r\n")),
              StartsWith("HTTP/1.1 304 "));
  // The connection can have another request.
  const Socket socket(server_->address());
  socket.Send(absl::StrCat("GET /v1/documents/d/text HTTP/1.1\r\nHost: x\r\nIf-None-Match: ", tag,
                           "\r\n\r\n", Get("/livez")));
  EXPECT_THAT(socket.ReadAll(), HasSubstr("HTTP/1.1 200 OK\r\n"));
}

}  // namespace
}  // namespace recollect
