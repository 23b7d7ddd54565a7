// Connections: routes, bounds, idle ones, drain.
#include <sys/resource.h>

#include <vector>

#include "base/clock.h"
#include "base/io/descriptors.h"
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(HttpTest, HealthAndModels) {
  for (const char* path : {"/livez", "/health", "/readyz", "/readyz?verbose"})
    EXPECT_THAT(Ask(Get(path)), StartsWith("HTTP/1.1 200 OK")) << path;
  const json models = Body(Ask(Get("/v1/models")))["data"];
  EXPECT_EQ(models[0]["id"], "fake");
  // Counted, so that each answer has its line of the log.
  EXPECT_THAT(Ask(Get("/livez")), HasSubstr("\r\nX-Request-Id: 6\r\n"));
  engine_.Set({.health = absl::UnavailableError("the device is lost")});
  EXPECT_THAT(Ask(Get("/readyz")), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Ask(Get("/livez")), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(Body(Ask(Get("/v1/models/fake"))), models[0]);
  const std::string other = Ask(Get("/v1/models/oth%0Aer"));
  EXPECT_THAT(other, StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(Body(other)["error"]["message"], "model: 'oth\\u{a}er', here is only 'fake'");
}

TEST_F(HttpTest, TheVersionIsTold) {
  Start({.listen = "127.0.0.1:0", .model_name = "fake", .version = "1.2.3"});
  const std::string answer = Ask(Get("/version"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(Body(answer), json({{"version", "1.2.3"}}));
}

TEST_F(HttpTest, OtherPathsAndMethods) {
  EXPECT_THAT(Ask(Get("/nowhere")), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Ask(Get("/livez/")), StartsWith("HTTP/1.1 404"));
  const std::string refused = Ask(Get("/v1/completions"));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(refused, HasSubstr("\r\nAllow: POST\r\n"));
  EXPECT_THAT(Ask(Post("/v1/documents", "{}")), HasSubstr("a text is PUT to '/v1/documents/ID'"));
  EXPECT_THAT(Ask(Get("/livez?a=%2")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask(Get("/livez?a=1&a=2")), HasSubstr("a: given twice"));
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpTest, WhatIsNoJsonIsToldByItsPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "the body is empty, expected a JSON object"},
      {"[]", "the body is a JSON array, expected an object"},
      {"{\"prompt\": tru}",
       "the body is not JSON in UTF-8 at byte 14 of 15: parse error at line 1, column 15: syntax "
       "error "
       "while parsing value - invalid literal"},
      {"{\"prompt\": \"x\"",
       "the body is not JSON in UTF-8 at byte 14 of 14: parse error at line 1, column 15: syntax "
       "error "
       "while parsing object - unexpected end of input; expected '}'"},
      {"{\"a\": \"\xff\"}",
       "the body is not JSON in UTF-8 at byte 7 of 10: parse error at line 1, column 8: syntax "
       "error "
       "while parsing value - invalid string: ill-formed UTF-8 byte"},
      {"{\"a\": 1} {}",
       "the body is not JSON in UTF-8 at byte 9 of 11: parse error at line 1, column 10: syntax "
       "error "
       "while parsing value - unexpected '{'; expected end of input"},
      {"{\"max_tokens\": 1e400}",
       "the body is not JSON in UTF-8: it has a number beyond the range of a double"},
  };
  for (const auto& [body, message] : cases) {
    const std::string answer = Ask(Post("/v1/completions", body, "Connection: close\r\n"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << body;
    EXPECT_EQ(Body(answer)["error"]["message"], message) << body;
  }
}

// Copies of a value, and its output in a message, take a frame of the stack for each level.
TEST_F(HttpTest, JsonIsRefusedWhereItIsTooDeep) {
  constexpr size_t kDeep = 200'000;
  const std::pair<const char*, std::vector<const char*>> endpoints[] = {
      {"/v1/completions", {"prompt", "stop", "stream_options", "model", "mounts", "unknown"}},
      {"/v1/chat/completions", {"messages", "stop", "tools", "metadata", "unknown"}},
      {"/v1/retrieve", {"query", "mounts", "layer_dilations", "unknown"}},
      {"/v1/score", {"prompt", "flush_after", "unknown"}},
      {"/v1/embeddings", {"input", "kind", "unknown"}},
      {"/tokenize", {"prompt", "unknown"}},
      {"/detokenize", {"tokens", "unknown"}}};
  for (const auto& [path, fields] : endpoints) {
    for (const char* field : fields) {
      const auto message = [&, &path = path](size_t depth, const char* open, const char* close) {
        std::string body = absl::StrCat("{\"", field, "\": ");
        for (size_t i = 1; i < depth; ++i) body += open;
        body += "1";
        for (size_t i = 1; i < depth; ++i) body += close;
        const std::string answer = Ask(Post(path, body + "}"));
        EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << path << " " << field;
        return Body(answer)["error"].value("message", "");
      };
      EXPECT_THAT(message(64, "[", "]"), Not(HasSubstr("deep"))) << path << " " << field;
      EXPECT_EQ(message(65, "[", "]"), "the body is nested 65 deep, expected at most 64");
      EXPECT_EQ(message(kDeep, "[", "]"), "the body is nested 200000 deep, expected at most 64");
      EXPECT_EQ(message(kDeep / 4, "{\"a\":", "}"),
                "the body is nested 50000 deep, expected at most 64");
    }
  }
}

// What a body is coded in is told, and not read as if it were text.
TEST_F(HttpTest, CodingsOfABodyAreRefusedByName) {
  const auto post = [&](const std::string& header) {
    return Ask(Post("/v1/completions", "abc", header + "\r\nConnection: close\r\n"));
  };
  const std::string gzip = post("Content-Encoding: gzip");
  EXPECT_THAT(gzip, StartsWith("HTTP/1.1 415 "));
  EXPECT_THAT(gzip, HasSubstr("\r\nAccept-Encoding: identity\r\n"));
  EXPECT_EQ(Body(gzip)["error"]["message"], "Content-Encoding: 'gzip', only identity is taken");
  EXPECT_THAT(
      Ask("PUT /v1/documents/d HTTP/1.1\r\nHost: x\r\nContent-Encoding: br\r\nContent-Length: 3\r\n"
          "Connection: close\r\n\r\nabc"),
      StartsWith("HTTP/1.1 415 "));
  EXPECT_THAT(post("Content-Encoding: Identity"), HasSubstr("not JSON"));
  const std::string transfer =
      Ask("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, "
          "chunked\r\n\r\n0\r\n\r\n");
  EXPECT_THAT(transfer, StartsWith("HTTP/1.1 501 "));
  EXPECT_THAT(transfer, HasSubstr("'gzip, chunked', only chunked is taken"));
}

TEST_F(HttpTest, TargetsMayBeWhole) {
  EXPECT_THAT(Ask(Get("http://example.com:80/livez")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask(Get("HTTPS://x/livez?a=%2")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask(Get("http://x")), HasSubstr("text/html"));
  EXPECT_THAT(Ask("GET /livez HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpTest, ErrorsKeepTheConnection) {
  const Socket socket(server_->address());
  const std::string bad = Post("/v1/completions", "{", "");
  socket.Send(bad + Post("/tokenize", "[]", "") +
              "OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n" + Get("/livez"));
  const std::string answers = socket.ReadAll();
  EXPECT_THAT(answers, HasSubstr("HTTP/1.1 405"));
  EXPECT_THAT(answers, HasSubstr("HTTP/1.1 200"));
}

TEST_F(HttpTest, HugeHeadsAndBodiesAreRefused) {
  EXPECT_THAT(Ask(absl::StrCat("GET /livez HTTP/1.1\r\nHost: x\r\nX: ", std::string(20000, 'x'),
                               "\r\n\r\n")),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Ask("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
}

// A client that sends all before it reads must still find the answer.
TEST_F(HttpTest, TheAnswerToABodyThatIsTooLongArrives) {
  const std::string body(8 << 20, 'x');
  EXPECT_THAT(Ask(Post("/v1/completions", body)), StartsWith("HTTP/1.1 413"));
  std::string chunks =
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 80; ++i)
    absl::StrAppend(&chunks, "10000\r\n", body.substr(0, 1 << 16), "\r\n");
  EXPECT_THAT(Ask(chunks + "0\r\n\r\n"), StartsWith("HTTP/1.1 413"));
}

TEST_F(HttpTest, ABodyInChunksIsRead) {
  const std::string answer =
      Ask("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: "
          "close\r\n\r\n"
          "10\r\n{\"model\": \"fake\"\r\n10;x=y\r\n, \"prompt\": \"x\"}\r\n0\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(
      Ask("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
      StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpTest, ContinueIsSaidOnlyToRequestsThatAreTaken) {
  const std::string expects =
      "Expect: 100-Continue\r\nConnection: close\r\nContent-Length: 34\r\n\r\n";
  const Socket taken(server_->address());
  taken.Send("POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + expects);
  EXPECT_EQ(taken.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  taken.Send(R"({"model": "fake", "prompt": "xyz"} )");
  EXPECT_THAT(taken.ReadAll(), StartsWith("HTTP/1.1 200"));
  const Socket refused(server_->address());
  refused.Send("POST /nowhere HTTP/1.1\r\nHost: x\r\n" + expects);
  EXPECT_THAT(refused.ReadUntil("}}"), StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpTest, RequestsMayBePipelinedAndKeepTheConnection) {
  const Socket socket(server_->address());
  const std::string request = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
  socket.Send(request + request + Get("/nowhere"));
  const std::string answers = socket.ReadAll();
  EXPECT_EQ(answers.find("HTTP/1.1 200"), 0u);
  EXPECT_NE(answers.find("HTTP/1.1 200", 1), std::string::npos);
  EXPECT_THAT(answers, HasSubstr("HTTP/1.1 404"));
}

TEST_F(HttpTest, HalfRequestsAreClosedInTime) {
  Start({.listen = "127.0.0.1:0", .model_name = "fake", .timeout = absl::Milliseconds(100)});
  for (const char* half :
       {"", "GET /liv", "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"})
    EXPECT_EQ(Ask(half), "") << half;
}

TEST_F(HttpTest, AThousandIdleConnectionsBlockNobody) {
  if (RaiseDescriptorLimit() < 2200) GTEST_SKIP() << "too few descriptors";
  std::vector<Socket> idle;
  for (int i = 0; i < 1000; ++i) idle.emplace_back(server_->address());
  EXPECT_THAT(Complete({}), StartsWith("HTTP/1.1 200"));
  idle.front().Send(Get("/livez"));
  EXPECT_THAT(idle.front().ReadAll(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpTest, ConnectionsBeyondTheBoundAreClosed) {
  Start({.listen = "127.0.0.1:0", .model_name = "fake", .max_connections = 4});
  std::vector<Socket> taken;
  for (int i = 0; i < 3; ++i) taken.emplace_back(server_->address());  // the last is for others
  EXPECT_EQ(Socket(server_->address()).ReadAll(), "");
  taken.pop_back();
  while (Ask(Get("/livez")).empty()) {
  }
}

TEST_F(HttpTest, TheHookSeesEveryHeadBeforeTheBody) {
  Start({.listen = "127.0.0.1:0",
         .model_name = "fake",
         .authorize = [](const http::Request& request) -> absl::StatusOr<access::Caller> {
           const auto key = request.headers.find("authorization");
           if (key != request.headers.end() && key->second == "Bearer k")
             return access::Caller::Anybody();
           return absl::UnauthenticatedError("no key");
         }});
  EXPECT_THAT(Ask("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"),
              StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(
      Ask("GET /livez HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\nConnection: close\r\n\r\n"),
      StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpTest, AnAddressInUseIsRefused) {
  FakeEngine other;
  const auto second =
      http::Server::Start({.listen = server_->address(), .model_name = "fake"}, other);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(server_->address()));
}

TEST_F(HttpTest, DrainAnswersWhatRunsAndRefusesWhatComes) {
  engine_.Set({.generation = {.then_wait = true}});  // until Shutdown
  const Socket running(server_->address());
  running.Send(Post("/v1/completions", R"({"model": "fake", "prompt": "x", "stream": true})"));
  running.ReadUntil("lo");
  server_->Refuse();
  EXPECT_THAT(Ask(Get("/readyz")), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Complete({}), StartsWith("HTTP/1.1 503"));
  const Socket idle(server_->address());
  engine_.Shutdown(SteadyNow() + absl::Seconds(10));
  server_->Drain(SteadyNow() + absl::Seconds(10));
  EXPECT_THAT(running.ReadAll(), HasSubstr("[DONE]"));
  EXPECT_EQ(idle.ReadAll(), "");
}

TEST_F(HttpTest, TheDestructorCancelsWhatRuns) {
  engine_.Set({.generation = {.then_hang = true}});
  const Socket running(server_->address());
  running.Send(Post("/v1/completions", R"({"model": "fake", "prompt": "x", "stream": true})"));
  running.ReadUntil("lo");
  server_.reset();
  engine_.Await([](const FakeEngine::Seen& seen) { return seen.cancelled == 1; });
}

}  // namespace
}  // namespace recollect
