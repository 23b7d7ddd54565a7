// POST /v1/completions with several prompts, and streams in which nothing comes for long, over the
// fake engine.
#include <vector>

#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(HttpTest, EachPromptHasItsChoice) {
  const json body = Body(Complete({{"prompt", {"a", "bcd"}}, {"echo", true}}));
  ASSERT_EQ(body["choices"].size(), 2u) << body;
  EXPECT_EQ(body["choices"][0]["text"], "aHello");
  EXPECT_EQ(body["choices"][1]["text"], "bcdHello");
  EXPECT_EQ(body["choices"][0]["index"], 0);
  EXPECT_EQ(body["choices"][1]["index"], 1);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  EXPECT_EQ(body["usage"]["total_tokens"], 8);
  EXPECT_EQ(Body(Complete({{"prompt", {{0, 1}, {1}}}}))["choices"].size(), 2u);
  EXPECT_EQ(engine_.seen().generate.prompt.tokens, std::vector<int32_t>{1});
}

TEST_F(HttpTest, AStreamOfSeveralPromptsEndsOnce) {
  const std::string answer = Complete(
      {{"prompt", {"a", "bcd"}}, {"stream", true}, {"stream_options", {{"include_usage", true}}}});
  std::vector<std::string> texts(2), reasons;
  const std::vector<json> events = Events(answer);
  for (const json& event : events) {
    for (const json& choice : event["choices"]) {
      texts[choice["index"].get<size_t>()] += choice["text"];
      if (!choice["finish_reason"].is_null()) reasons.push_back(choice["finish_reason"]);
    }
  }
  EXPECT_EQ(texts, std::vector<std::string>(2, "Hello"));
  EXPECT_EQ(reasons, std::vector<std::string>(2, "stop"));
  EXPECT_EQ(events.back()["usage"]["total_tokens"], 8);
  EXPECT_EQ(answer.find("[DONE]"), answer.rfind("[DONE]"));
  EXPECT_THAT(answer, HasSubstr("data: [DONE]\n\n\r\n0\r\n\r\n"));
}

TEST_F(HttpTest, RetrievalsOfSeveralPromptsSayWhoseTheyAre) {
  engine_.AddDocument("d", "a document of some length");
  const json body =
      Body(Complete({{"prompt", {"a", "b"}}, {"retrievals", true}, {"mounts", {"d"}}}));
  ASSERT_EQ(body["retrievals"].size(), 2u) << body;
  EXPECT_EQ(body["retrievals"][0]["choice"], 0);
  EXPECT_EQ(body["retrievals"][1]["choice"], 1);
  EXPECT_EQ(body["retrievals_left_out"], 0);
}

TEST_F(HttpTest, TheErrorOfOnePromptIsTheAnswer) {
  engine_.Set({.generation = {.then_error = absl::DataLossError("chunk 3 is damaged")}});
  const std::string whole = Complete({{"prompt", {"a", "b"}}});
  EXPECT_THAT(whole, StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(whole, HasSubstr("chunk 3 is damaged"));
  const std::string stream = Complete({{"prompt", {"a", "b"}}, {"stream", true}});
  EXPECT_EQ(stream.find("{\"error\""), stream.rfind("{\"error\""));
  EXPECT_THAT(stream, HasSubstr("chunk 3 is damaged"));
  EXPECT_EQ(stream.find("[DONE]"), std::string::npos);
}

TEST_F(HttpTest, AClientThatGoesCancelsAllItsPrompts) {
  engine_.Set({.generation = {.then_wait = true}});
  {
    const Socket socket(server_->address());
    socket.Send(
        Post("/v1/completions",
             json({{"model", "fake"}, {"prompt", {"a", "b", "c"}}, {"stream", true}}).dump()));
    socket.ReadUntil("lo");
  }
  engine_.Await([](const FakeEngine::Seen& seen) { return seen.cancelled == 3; });
}

TEST_F(HttpTest, PromptsAreCounted) {
  ExpectRefused("/v1/completions",
                {{"model", "fake"}, {"prompt", std::vector<std::string>(257, "a")}}, 400,
                "prompt: 257 texts, at most 256");
  ExpectRefused("/v1/completions",
                {{"model", "fake"},
                 {"prompt", std::vector<std::string>(200, "a")},
                 {"logprobs", 20},
                 {"max_tokens", 100}},
                400, "logprobs: 20 for each of 100 tokens of 200 prompts, at most 262144");
  ExpectRefused("/v1/completions", {{"model", "fake"}, {"prompt", {"a", 1}}}, 400,
                "prompt: number");
}

// A prompt of many tokens: the head comes before the first event, and lines without any.
TEST_F(HttpTest, AStreamIsNeverSilentForLong) {
  Start({.listen = "127.0.0.1:0",
         .model_name = "fake",
         .event_pauses = {.head = absl::Milliseconds(20), .comment = absl::Milliseconds(20)}});
  engine_.Set({.generation = {.pieces = {},
                              .then_wait = true,
                              .then_error = absl::UnavailableError("the server is draining")}});
  const Socket socket(server_->address());
  socket.Send(Post("/v1/completions", R"({"model": "fake", "prompt": "x", "stream": true})"));
  const std::string begin = socket.ReadUntil("\r\n:\n\n");
  EXPECT_THAT(begin, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"));
  EXPECT_THAT(begin, HasSubstr("X-Accel-Buffering: no\r\n"));
  engine_.Shutdown(absl::InfinitePast());  // an error after the head is an event
  EXPECT_THAT(socket.ReadAll(), HasSubstr("data: {\"error\":{"));
}

// As docs/http.md has them.
TEST_F(HttpTest, ASilenceLastsASecondAndThenFifteen) {
  const http::ServerOptions unset;
  EXPECT_EQ(unset.event_pauses.head, absl::Seconds(1));
  EXPECT_EQ(unset.event_pauses.comment, absl::Seconds(15));
}

TEST_F(HttpTest, AnErrorBeforeThePauseHasItsStatus) {
  Start({.listen = "127.0.0.1:0",
         .model_name = "fake",
         .event_pauses = {.head = absl::Seconds(60), .comment = absl::Milliseconds(20)}});
  engine_.Set({.error = absl::NotFoundError("no document 'd'")});
  EXPECT_THAT(Complete({{"stream", true}}), StartsWith("HTTP/1.1 404"));
}

}  // namespace
}  // namespace recollect
