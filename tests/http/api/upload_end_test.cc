// How uploads run beside each other and end: deletes, clients that are gone, resuming, draining.
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/http/api/upload_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(HttpUploadTest, OneUploadWritesADocument) {
  const Socket first(server_->address());
  first.Send(PutHead("/v1/documents/d", absl::StrCat(kLines, "Content-Length: 8\r\n\r\ntext")));
  first.ReadUntil("}\n");
  ExpectError(Put("/v1/documents/d", "text"), 409, "another stream writes 'd'");
  first.Send("more");
  EXPECT_EQ(Lines("\r\n\r\n" + first.ReadAll()).back()["document"]["bytes"], 8);
}

TEST_F(HttpUploadTest, OnlySoManyRunAtOnce) {
  engine_.max_ingests = 1;
  const Socket first(server_->address());
  first.Send(PutHead("/v1/documents/d", absl::StrCat(kLines, "Content-Length: 8\r\n\r\ntext")));
  first.ReadUntil("}\n");
  ExpectError(Put("/v1/documents/e", "text"), 429, "1 ingests are open, at most 1 are allowed");
  EXPECT_THAT(Ask(Put("/v1/documents/e", "text")), HasSubstr("\r\nRetry-After: 1\r\n"));
  first.Send("more");
  first.ReadAll();
  EXPECT_THAT(Ask(Put("/v1/documents/e", "text")), StartsWith("HTTP/1.1 201"));
}

TEST_F(HttpUploadTest, ManyAtOnceKeepApart) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([this, i] {
      const std::string text(50'000, static_cast<char>('a' + i));
      const std::string path = absl::StrCat("/v1/documents/", i);
      const auto answer = Ask(Put(path, text, i % 2 == 0 ? kClose : kLines));
      EXPECT_THAT(answer, StartsWith(i % 2 == 0 ? "HTTP/1.1 201" : "HTTP/1.1 200")) << i;
      EXPECT_TRUE(Ask(Get(path + "/text")).ends_with("\r\n\r\n" + text)) << i;
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(HttpUploadTest, ADeleteEndsAnUpload) {
  const Socket socket(server_->address());
  socket.Send(PutHead("/v1/documents/d", absl::StrCat(kLines,
                                                      "Content-Length: 24\r\n\r\n"
                                                      "sixteen bytes is")));
  socket.ReadUntil("}\n");
  Ask("DELETE /v1/documents/d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  socket.Send(" a commit");
  const json error = Lines("\r\n\r\n" + socket.ReadAll()).back()["error"];
  EXPECT_EQ(error["code"], "failed_precondition");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("deleted"));
  EXPECT_EQ(Committed("d"), -1);
}

class HttpResumeTest : public HttpUploadTest {
 protected:
  // Is broken off by its client.
  void BreakOff(const std::string& begun) {
    {
      const Socket socket(server_->address());
      socket.Send(
          PutHead("/v1/documents/d", absl::StrCat(kLines, "Content-Length: 1000\r\n\r\n", begun)));
      socket.ReadUntil("}\n");
    }
    AwaitNoIngest();
  }
};

TEST_F(HttpResumeTest, WhatWasCommittedStaysAndTheRestIsSent) {
  BreakOff("a text that is broken off");
  EXPECT_EQ(Committed("d"), 16);
  EXPECT_THAT(Ask(Put("/v1/documents/d", "roken no more", Range("16-28/29"))),
              StartsWith("HTTP/1.1 201"));
  EXPECT_EQ(Text("d"), "a text that is broken no more");
}

TEST_F(HttpResumeTest, OrTheWholeIsSentAgain) {
  const std::string text = "a text that is broken off, and sent again";
  BreakOff(text.substr(0, 25));
  ExpectError(Put("/v1/documents/d", "A text that is broken off"), 409,
              "ingest of document \"d\" has read 16 other bytes");
  ExpectError(Put("/v1/documents/d", text.substr(0, 9)), 409, "the text has 9 bytes");
  EXPECT_EQ(Committed("d"), 16);
  const Socket socket(server_->address());
  socket.Send(absl::StrCat(
      PutHead("/v1/documents/d", absl::StrCat(kClose, "Transfer-Encoding: chunked\r\n\r\n")),
      Chunk(text.substr(0, 15)), Chunk(text.substr(15, 1)), Chunk(text.substr(16)), "0\r\n\r\n"));
  EXPECT_THAT(socket.ReadAll(), StartsWith("HTTP/1.1 201"));
  EXPECT_EQ(Text("d"), text);
}

TEST_F(HttpResumeTest, WhatIsNoHttpEndsAnUpload) {
  ExpectError(absl::StrCat(PutHead("/v1/documents/d", "Transfer-Encoding: chunked\r\n\r\n"),
                           Chunk("a text that is broken off"), "zz\r\n"),
              400, "not HTTP");
  AwaitNoIngest();
  EXPECT_EQ(Committed("d"), 16);
}

TEST_F(HttpResumeTest, AClientThatSaysNothingMoreIsGone) {
  Start({.listen = "127.0.0.1:0", .model_name = "fake", .timeout = absl::Milliseconds(100)});
  const std::string begun = Ask(PutHead(
      "/v1/documents/d", absl::StrCat(kClose, "Content-Length: 1000\r\n\r\n", "sixteen bytes is")));
  EXPECT_EQ(begun, "");
  AwaitNoIngest();
  Start({.listen = "127.0.0.1:0", .model_name = "fake"});
  EXPECT_EQ(Committed("d"), 16);
}

// The thread that answers for the engine is kept busy: what the server has not been answered, it
// does not read on, and the client cannot send.
TEST_F(HttpUploadTest, ABodyIsReadNoFasterThanTheEngineTakesIt) {
  constexpr size_t kBytes = 64 << 20;
  const std::function<void()> go_on = KeepEngineBusy();
  const Socket socket(server_->address());
  socket.Send(PutHead("/v1/documents/d", absl::StrCat("Content-Length: ", kBytes, "\r\n\r\n")));
  EXPECT_LT(socket.SendWhileTaken(kBytes), kBytes / 2);
  go_on();
}

TEST_F(HttpUploadTest, WhileDrainingALongBodyIsRefused) {
  server_->Refuse();
  ExpectError(Put("/v1/documents/d", std::string(8 << 20, 'x')), 503, "the server is draining");
  EXPECT_THAT(Ask(Put("/v1/documents/d", "x")), HasSubstr("\r\nRetry-After: 1\r\n"));
}

TEST_F(HttpUploadTest, AnUploadThatMeetsTheEnginesEndIsToldSo) {
  const Socket socket(server_->address());
  socket.Send(PutHead("/v1/documents/d", absl::StrCat(kLines,
                                                      "Content-Length: 24\r\n\r\n"
                                                      "sixteen bytes is")));
  socket.ReadUntil("}\n");
  server_->Refuse();
  engine_.Shutdown(SteadyNow());
  socket.Send(" a commit");
  EXPECT_EQ(Lines("\r\n\r\n" + socket.ReadAll()).back()["error"]["code"], "unavailable");
  server_->Drain(SteadyNow() + absl::Seconds(10));
}

TEST_F(HttpUploadTest, TheDestructorEndsWhatRuns) {
  const Socket socket(server_->address());
  socket.Send(PutHead("/v1/documents/d", absl::StrCat(kLines, "Content-Length: 24\r\n\r\ntext")));
  socket.ReadUntil("}\n");
  server_.reset();
  EXPECT_EQ(engine_.seen().ingests, 0);
}

}  // namespace
}  // namespace recollect
