// Documents as files over HTTP, over the fake engine.
#include "http/net/authorize.h"
#include "tests/access/access_testing.h"
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using access::Right;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpTransferTest : public HttpTest {
 protected:
  std::string File(const std::string& id) {
    return Chunks(Ask(Get("/v1/documents/" + id + "/export")));
  }
  static std::string Put(const std::string& id, const std::string& file,
                         const std::string& headers = "") {
    return absl::StrCat("PUT /v1/documents/", id, "/import HTTP/1.1\r\nHost: x\r\n", headers,
                        "Connection: close\r\nContent-Length: ", file.size(), "\r\n\r\n", file);
  }
  void ExpectError(const std::string& request, int status, const std::string& message) const {
    const std::string answer = Ask(request);
    EXPECT_THAT(answer, StartsWith(absl::StrCat("HTTP/1.1 ", status, " "))) << message;
    EXPECT_THAT(Body(answer)["error"].value("message", ""), HasSubstr(message));
  }
  void AwaitNoImport() {
    engine_.Await([](const FakeEngine::Seen& seen) { return seen.imports == 0; });
  }
  bool IsThere(const std::string& id) { return engine_.GetDocument(id).ok(); }
};

TEST_F(HttpTransferTest, ADocumentGoesOutAndComesBack) {
  std::string text;
  while (text.size() < 1'000'000) absl::StrAppend(&text, "line ", text.size(), "\n");
  engine_.AddDocument("a/d", text);
  const std::string answer = Ask(Get("/v1/documents/a%2Fd/export"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer.substr(0, 1000), HasSubstr("\r\nContent-Type: application/octet-stream\r\n"));
  const std::string file = Chunks(answer);
  EXPECT_THAT(file, StartsWith("RECOLDOC"));
  EXPECT_GT(file.size(), text.size());
  const std::string put = Ask(Put("e%2Ff", file));
  EXPECT_THAT(put, StartsWith("HTTP/1.1 201 Created\r\n"));
  EXPECT_EQ(Body(put)["id"], "e/f");
  EXPECT_EQ(Body(put), Body(Ask(Get("/v1/documents/e%2Ff"))));
  EXPECT_TRUE(engine_.ReadText("e/f", 0, std::ssize(text)).value() == text);
  EXPECT_EQ(engine_.seen().peer, "127.0.0.1");
  ExpectError(Put("e%2Ff", file), 409, "'e/f' exists");
  AwaitNoImport();
}

TEST_F(HttpTransferTest, ADocumentIsReadAgain) {
  engine_.AddDocument("d", "some text");
  const auto put = [](const std::string& id, const std::string& query = "") {
    return absl::StrCat("PUT /v1/documents/", id, "/refresh", query,
                        " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  };
  const std::string answer = Ask(put("d"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(Body(answer), Body(Ask(Get("/v1/documents/d"))));
  EXPECT_EQ(engine_.seen().refreshed, std::vector<std::string>{"d"});
  ExpectError(put("none"), 404, "'none'");
  ExpectError(put("d", "?all=1"), 400, "all");
}

TEST_F(HttpTransferTest, AFileInChunks) {
  engine_.AddDocument("d", "some text");
  const std::string file = File("d");
  std::string request =
      "PUT /v1/documents/e/import HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  for (size_t at = 0; at < file.size(); at += 7) {
    const std::string part = file.substr(at, 7);
    absl::StrAppend(&request, absl::Hex(part.size()), "\r\n", part, "\r\n");
  }
  EXPECT_THAT(Ask(request + "0\r\n\r\n"), StartsWith("HTTP/1.1 201"));
  EXPECT_EQ(engine_.ReadText("e", 0, 9).value(), "some text");
}

TEST_F(HttpTransferTest, WhatIsWrongIsSaidAndLeavesNothing) {
  engine_.AddDocument("d", "some text of a document");
  engine_.AddDocument("bad", "abc\xff");
  const std::string file = File("d");
  ExpectError(Get("/v1/documents/none/export"), 404, "'none'");
  ExpectError(Get("/v1/documents/d/export?begin=3"), 400, "begin");
  ExpectError(Put("e", file.substr(0, 100)), 400, "it ends after 100 bytes");
  std::string flipped = file;
  flipped[file.size() / 2] = static_cast<char>(flipped[file.size() / 2] ^ 1);
  ExpectError(Put("e", flipped), 400, "document file");
  ExpectError(Put("e", file + "x"), 400, "behind its end");
  ExpectError(Put("e", "some text"), 400, "not a document file");
  ExpectError(Put("e", ""), 400, "is empty");
  ExpectError(Put("e", File("bad")), 400, "not valid UTF-8 at byte 3");
  ExpectError(Put("a,b", file), 400, "id");
  EXPECT_THAT(Ask("PUT /v1/documents/e/import?id=f HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                  "Content-Length: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
  EXPECT_FALSE(IsThere("e"));
  AwaitNoImport();
  EXPECT_THAT(Ask(Put("e", file)), StartsWith("HTTP/1.1 201"));
}

TEST_F(HttpTransferTest, AClientThatGoesLeavesNothing) {
  engine_.AddDocument("d", std::string(2 << 20, 'x'));
  const std::string file = File("d");
  {
    const Socket socket(server_->address());
    socket.Send(absl::StrCat("PUT /v1/documents/e/import HTTP/1.1\r\nHost: x\r\nContent-Length: ",
                             file.size(), "\r\n\r\n", file.substr(0, 1 << 20)));
    engine_.Await([](const FakeEngine::Seen& seen) { return seen.imports == 1; });
  }
  AwaitNoImport();
  EXPECT_FALSE(IsThere("e"));
  {
    const Socket socket(server_->address(), /*receive_bytes=*/4096);
    socket.Send(Get("/v1/documents/d/export"));
    socket.ReadUntil("RECOLDOC");
  }
  server_.reset();  // waits for all that runs
}

class HttpTransferKeysTest : public HttpTransferTest {
 protected:
  void SetUp() override {
    keys_ = ::testing::TempDir() + "/recollect_http_transfer_keys";
    std::filesystem::remove(keys_);
    for (const access::Key& key :
         {KeyOf("full"), KeyOf("read", Right::kRead), KeyOf("a", Right::kFull, "a/")}) {
      ASSERT_THAT(access::AddKey(keys_, key), IsOk());
    }
    guard_ = access::Guard::Open(keys_).value();
    Start({.listen = "127.0.0.1:0",
           .model_name = "fake",
           .authorize = [this](const http::Request& r) { return http::Authorize(*guard_, r); }});
    engine_.AddDocument("a/d", "some text");
    const auto out = engine_.ExportDocument("a/d");
    for (std::string part = (*out)->Next().value(); !part.empty(); part = (*out)->Next().value())
      file_ += part;
  }
  static std::string As(const std::string& name) {
    return absl::StrCat("Authorization: Bearer secret-", name, "\r\n");
  }
  std::string Export(const std::string& name, const std::string& id) const {
    return Ask(absl::StrCat("GET /v1/documents/", id, "/export HTTP/1.1\r\nHost: x\r\n", As(name),
                            "Connection: close\r\n\r\n"));
  }
  std::string Import(const std::string& name, const std::string& id) const {
    return Ask(Put(id, file_, As(name)));
  }
  void Revoke(const std::string& name) {
    ASSERT_THAT(access::RemoveKey(keys_, name), IsOk());
    ASSERT_THAT(guard_->Reload(), IsOk());
  }

  std::string keys_, file_;
  std::unique_ptr<access::Guard> guard_;
};

TEST_F(HttpTransferKeysTest, NeedTheRightAndThePrefix) {
  EXPECT_TRUE(Chunks(Export("read", "a%2Fd")) == file_);
  EXPECT_THAT(Export("a", "a%2Fd"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Export("a", "b"), StartsWith("HTTP/1.1 403"));
  const std::string reader = Import("read", "a%2Fnew");
  EXPECT_THAT(reader, StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(reader, HasSubstr("PUT needs 'full'"));
  // It is the path that says what the document is called, not the file.
  EXPECT_THAT(Import("a", "b"), StartsWith("HTTP/1.1 403"));
  EXPECT_FALSE(IsThere("b") || IsThere("a/new"));
  EXPECT_THAT(Import("a", "a%2Fnew"), StartsWith("HTTP/1.1 201"));
  EXPECT_THAT(Import("full", "b"), StartsWith("HTTP/1.1 201"));
}

TEST_F(HttpTransferKeysTest, EndWhenTheKeyIsRevoked) {
  const Socket import(server_->address());
  import.Send(absl::StrCat("PUT /v1/documents/a%2Fnew/import HTTP/1.1\r\nHost: x\r\n", As("a"),
                           "Content-Length: ", file_.size(), "\r\n\r\n", file_.substr(0, 20)));
  engine_.Await([](const FakeEngine::Seen& seen) { return seen.imports == 1; });
  Revoke("a");
  import.Send(file_.substr(20));
  EXPECT_THAT(import.ReadUntil("unauthenticated"), StartsWith("HTTP/1.1 401"));
  AwaitNoImport();
  EXPECT_FALSE(IsThere("a/new"));

  engine_.AddDocument("large", std::string(2 << 20, 'x'));
  const Socket out(server_->address(), /*receive_bytes=*/4096);
  out.Send(absl::StrCat("GET /v1/documents/large/export HTTP/1.1\r\nHost: x\r\n", As("read"),
                        "Connection: close\r\n\r\n"));
  out.ReadUntil("RECOLDOC");
  Revoke("read");
  const std::string rest = out.ReadAll();
  EXPECT_LT(rest.size(), size_t{7} << 20);
  EXPECT_FALSE(rest.ends_with("0\r\n\r\n")) << "not told apart from a whole one";
}

}  // namespace
}  // namespace recollect
