// Clients that go while bytes of theirs are unread, over the fake engine, which commits at
// multiples of 16 bytes.
#include <sys/socket.h>

#include <functional>

#include "base/clock.h"
#include "http/net/body.h"
#include "tests/http/http_testing.h"
#include "tests/support/metrics_text.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class GoneTest : public HttpTest {
 protected:
  static constexpr int64_t kBytes = 1'400'000;

  // Until no other request runs than the one that asks. False: after 20 s one still does.
  bool AwaitNoRequest() const {
    const absl::Time end = SteadyNow() + absl::Seconds(20);
    while (SteadyNow() < end) {
      const std::string answer = Ask(Get("/metrics"));
      if (ParseMetrics(answer.substr(answer.find("\r\n\r\n") + 4))
              .value("recollect_http_requests_running") == 1)
        return true;
    }
    return false;
  }

  // A client that sends kBytes of a text of `length` and goes, while the engine works on the first
  // of them and does not get on.
  void SendAndGo(int64_t length) {
    const std::function<void()> go_on = KeepEngineBusy();
    {
      const Socket socket(server_->address());
      socket.Send(absl::StrCat(
          "PUT /v1/documents/z HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", length, "\r\n\r\n",
          std::string(kBytes, 'x')));
    }
    EXPECT_TRUE(AwaitNoRequest());
    EXPECT_EQ(engine_.seen().cancelled_ingests, 1) << "so that its step is the last one";
    go_on();
    engine_.Await([](const FakeEngine::Seen& seen) { return seen.ingests == 0; });
  }
  int64_t Committed() const {
    return Body(Ask(Get("/v1/documents/z"))).value("committed_bytes", int64_t{-1});
  }
  std::string SendAgain() const {
    return Ask(
        absl::StrCat("PUT /v1/documents/z HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     "Content-Length: ",
                     kBytes, "\r\n\r\n", std::string(kBytes, 'x')));
  }
};

TEST_F(GoneTest, ATextThatIsBrokenOffIsReadNoFurther) {
  SendAndGo(2 * kBytes);
  EXPECT_LE(Committed(), int64_t{http::Body::kPieceBytes});
  EXPECT_THAT(SendAgain(), StartsWith("HTTP/1.1 201"));
}

TEST_F(GoneTest, NorIsOneThatHasCome) {
  SendAndGo(kBytes);
  EXPECT_LE(Committed(), int64_t{http::Body::kPieceBytes});
  EXPECT_THAT(SendAgain(), StartsWith("HTTP/1.1 201"));
}

// As curl that is killed: its system holds megabytes of what it wrote, and sends them before the
// end, as the server reads.
TEST_F(GoneTest, AClientOfThisMachineIsMissedBeforeAllThatItSentHasCome) {
  const std::function<void()> go_on = KeepEngineBusy();
  {
    const Socket socket(server_->address());
    socket.Send(absl::StrCat("PUT /v1/documents/z HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
                             1 << 30, "\r\n\r\n"));
    socket.SendWhileTaken(1 << 30);
  }
  EXPECT_TRUE(AwaitNoRequest());
  EXPECT_EQ(engine_.seen().cancelled_ingests, 1);
  go_on();
  engine_.Await([](const FakeEngine::Seen& seen) { return seen.ingests == 0; });
}

// The next request waits, and behind it the end of the connection.
TEST_F(GoneTest, TheEndBehindTheNextRequestIsSeen) {
  engine_.Set({.generation = {.then_wait = true}});
  const Socket socket(server_->address());
  socket.Send(Post("/v1/completions",
                   R"({"model": "fake", "prompt": "x", "max_tokens": 9, "stream": true})", ""));
  EXPECT_THAT(socket.ReadUntil("Hel"), HasSubstr("200 OK"));
  socket.Send(Get("/livez"));
  EXPECT_FALSE(Ask(Get("/livez")).empty());  // what was sent before has come
  shutdown(socket.fd(), SHUT_WR);
  EXPECT_TRUE(AwaitNoRequest());
  EXPECT_EQ(engine_.seen().cancelled, 1);
}

}  // namespace
}  // namespace recollect
