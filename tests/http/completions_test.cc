// POST /v1/completions over the fake engine: answers, streams, cancellation, refusals.
#include <tuple>
#include <vector>

#include "base/status.h"
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(HttpTest, ACompletionIsAnsweredWhole) {
  const std::string answer = Complete({{"max_tokens", 8}, {"seed", 7}, {"temperature", 0.5}});
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  const json body = Body(answer);
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "fake");
  EXPECT_EQ(body["choices"][0]["text"], "Hello");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"],
            json({{"prompt_tokens", 9}, {"completion_tokens", 2}, {"total_tokens", 11}}));
  const engine::GenerateRequest seen = engine_.seen().generate;
  EXPECT_EQ(seen.prompt.text, "Say hello");
  EXPECT_EQ(seen.sampling.seed, 7u);
  EXPECT_EQ(seen.sampling.temperature, 0.5);
  EXPECT_EQ(seen.max_tokens, 8);
}

TEST_F(HttpTest, FieldsReachTheEngine) {
  engine_.AddDocument("d", "a document of some length");
  Complete({{"prompt", {{3, 4}}},
            {"stop", "."},
            {"mounts", {"d"}},
            {"dilation", 4},
            {"layer_windows", {{1, 2}, {3}}},
            {"top_p", 0.25}});
  const engine::GenerateRequest seen = engine_.seen().generate;
  EXPECT_EQ(seen.prompt.tokens, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(seen.stop, std::vector<std::string>{"."});
  EXPECT_EQ(seen.session_options.mounts, std::vector<std::string>{"d"});
  EXPECT_EQ(seen.session_options.dilation, 4);
  EXPECT_EQ(seen.session_options.layer_windows, (engine::LayerNumbers{{1, 2}, {3}}));
  EXPECT_EQ(seen.sampling.top_p, 0.25);
  EXPECT_EQ(seen.max_tokens, 16);
}

TEST_F(HttpTest, AStreamEndsWithUsageAndDone) {
  const std::string answer =
      Complete({{"stream", true}, {"echo", true}, {"stream_options", {{"include_usage", true}}}});
  EXPECT_THAT(answer, HasSubstr("text/event-stream"));
  std::string text;
  std::vector<json> chunks;
  for (size_t at = 0; (at = answer.find("data: {", at)) != std::string::npos; ++at) {
    const size_t begin = at + 6;
    chunks.push_back(json::parse(answer.substr(begin, answer.find('\n', begin) - begin)));
    for (const json& choice : chunks.back()["choices"]) text += choice["text"];
  }
  EXPECT_EQ(text, "Say helloHello");
  ASSERT_EQ(chunks.size(), 5u);
  EXPECT_EQ(chunks[3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(chunks[4]["usage"]["completion_tokens"], 2);
  EXPECT_THAT(answer, HasSubstr("data: [DONE]\n\n\r\n0\r\n\r\n"));
}

TEST_F(HttpTest, RetrievalsAreEventsBetweenTheTexts) {
  engine_.AddDocument("d", "a document of some length");
  const std::string answer =
      Complete({{"stream", true}, {"echo", true}, {"retrievals", true}, {"mounts", {"d"}}});
  std::vector<json> events;
  for (size_t at = 0; (at = answer.find("data: {", at)) != std::string::npos; ++at) {
    const size_t begin = at + 6;
    events.push_back(json::parse(answer.substr(begin, answer.find('\n', begin) - begin)));
  }
  ASSERT_EQ(events.size(), 5u);  // the echo, what the prompt retrieved, two texts, the end
  EXPECT_EQ(events[0]["choices"][0]["text"], "Say hello");
  EXPECT_EQ(events[1]["choices"], json::array());
  EXPECT_EQ(events[1]["object"], "text_completion");
  EXPECT_EQ(events[1]["retrieval"]["position"], 64);
  EXPECT_EQ(events[1]["retrieval"]["group"], 0);
  EXPECT_EQ(events[1]["retrieval"]["hits"][1]["begin"], 10);
  EXPECT_FALSE(events[2].contains("retrieval"));
  EXPECT_THAT(Complete({{"stream", true}}), Not(HasSubstr("retrieval")));
}

TEST_F(HttpTest, WithoutAStreamRetrievalsAreAList) {
  engine_.AddDocument("d", "a document of some length");
  const json body = Body(Complete({{"retrievals", true}, {"mounts", {"d"}}}));
  ASSERT_EQ(body["retrievals"].size(), 1u);
  EXPECT_EQ(body["retrievals"][0]["hits"].size(), 2u);
  EXPECT_EQ(body["retrievals_left_out"], 0);
  EXPECT_EQ(body["choices"][0]["text"], "Hello");
  EXPECT_FALSE(Body(Complete({{"mounts", {"d"}}})).contains("retrievals"));
  EXPECT_FALSE(engine_.seen().generate.with_retrievals);
}

TEST_F(HttpTest, AnErrorInAStreamIsItsLastEvent) {
  engine_.Set({.generation = {.then_error = absl::DataLossError("chunk 3 is damaged")}});
  const std::string answer = Complete({{"stream", true}});
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("data: {\"error\":{"));
  EXPECT_THAT(answer, HasSubstr("chunk 3 is damaged"));
  EXPECT_THAT(Complete({}), StartsWith("HTTP/1.1 500"));
}

TEST_F(HttpTest, EchoWithLogprobsScoresPromptAndAnswer) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  const json body = Body(Complete({{"echo", true}, {"logprobs", 0}, {"max_tokens", 1}}));
  std::vector<int32_t> expected = tokenizer.Encode("Say hello").value();
  const int64_t prompt_tokens = std::ssize(expected);
  expected.push_back(0);  // what the fake generates first
  EXPECT_EQ(engine_.seen().score.prompt.tokens, expected);
  EXPECT_EQ(engine_.seen().score.flush_after, std::vector<int64_t>{prompt_tokens});
  EXPECT_EQ(body["choices"][0]["text"], "Say helloHel");
  EXPECT_EQ(body["choices"][0]["logprobs"]["token_logprobs"], json({-0.5, -1.5}));
}

// As clients read it (lm_eval): a token was the greedy choice where no other of its row has more.
TEST_F(HttpTest, TopLogprobsHaveTheChosenAndTheMostLikelyToken) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  const auto text = [&](int32_t id) { return std::string(tokenizer.TokenBytes(id)); };
  const std::vector<int32_t> ids = tokenizer.Encode("ab").value();
  ASSERT_EQ(ids.size(), 2u);
  engine_.Set({.score = {{ids[0], ids[1], ids[0]},
                         {0, -0.5f, -1.5f},
                         {-1, ids[1], ids[1]},
                         {0, -0.5f, -0.25f},
                         3}});
  const json logprobs = Body(
      Complete({{"echo", true}, {"logprobs", 1}, {"max_tokens", 1}}))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json({text(ids[0]), text(ids[1]), text(ids[0])}));
  EXPECT_EQ(logprobs["token_logprobs"], json({nullptr, -0.5, -1.5}));
  EXPECT_EQ(logprobs["top_logprobs"],
            json::array(
                {nullptr, {{text(ids[1]), -0.5}}, {{text(ids[0]), -1.5}, {text(ids[1]), -0.25}}}));
}

TEST_F(HttpTest, TokensThatArePartsOfACharacterAreToldApart) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  const std::vector<int32_t> bytes = tokenizer.Encode("\xF0\x9F\x98\x80").value();
  const size_t last = bytes.size() - 1;
  ASSERT_EQ(tokenizer.TokenBytes(bytes[last]), "\x80");
  engine_.Set({.score = {{bytes[last]}, {-2.0f}, {bytes[last - 1]}, {-1.0f}, 1}});
  const json logprobs = Body(
      Complete({{"echo", true}, {"logprobs", 1}, {"max_tokens", 0}}))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json::array({"bytes:\\x80"}));
  EXPECT_EQ(logprobs["top_logprobs"],
            json::array({{{"bytes:\\x80", -2.0}, {"bytes:\\x98", -1.0}}}));
}

// It is no part of the answer, but clients count on one entry for each choice.
TEST_F(HttpTest, LogprobsEndWithTheEndToken) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  engine_.Set({.generation = {.pieces = {}, .reason = engine::FinishReason::kEos}});
  Complete({{"echo", true}, {"logprobs", 0}, {"max_tokens", 1}});
  std::vector<int32_t> expected = tokenizer.Encode("Say hello").value();
  const int64_t prompt_tokens = std::ssize(expected);
  expected.push_back(kEndToken);
  EXPECT_EQ(engine_.seen().score.prompt.tokens, expected);
  EXPECT_EQ(engine_.seen().score.flush_after, std::vector<int64_t>{prompt_tokens});
}

TEST_F(HttpTest, AClientThatGoesCancelsItsRequest) {
  engine_.Set({.generation = {.then_wait = true}});
  for (const bool stream : {false, true}) {
    const int64_t before = engine_.seen().cancelled;
    {
      const Socket socket(server_->address());
      socket.Send(Post("/v1/completions",
                       json({{"model", "fake"}, {"prompt", "x"}, {"stream", stream}}).dump()));
      if (stream) socket.ReadUntil("lo");
    }
    engine_.Await([&](const FakeEngine::Seen& seen) { return seen.cancelled > before; });
  }
}

TEST_F(HttpTest, AReaderTooSlowForItsStreamIsCutOff) {
  engine_.Set({.generation = {.pieces = {std::string(4096, 'x')}, .repeat = 20000}});
  const Socket socket(server_->address(), /*receive_bytes=*/4096);
  socket.Send(Post(
      "/v1/completions",
      json({{"model", "fake"}, {"prompt", "x"}, {"stream", true}, {"max_tokens", 20000}}).dump()));
  engine_.Await([](const FakeEngine::Seen& seen) { return seen.cancelled == 1; });
}

TEST_F(HttpTest, BadRequestsNameTheField) {
  const std::tuple<json, int, std::string> cases[] = {
      {{{"model", "other"}}, 404, "model: 'other', here is only 'fake'"},
      {{{"model", 3}}, 400, "model: number, expected a string"},
      {{{"max_tokens", "8"}}, 400, "max_tokens: string, expected an integer"},
      {{{"max_tokens", 1.5}}, 400, "max_tokens: number, expected an integer"},
      {{{"max_tokens", -1}}, 400, "max_tokens: -1, limit 0 to 65536"},
      {{{"temperature", 1e6}}, 400, "temperature: 1e+06"},
      {{{"prompt", {"a", "b"}}}, 400, "prompt: 2 texts"},
      {{{"prompt", {1, 5000000000}}}, 400, "prompt: array"},
      {{{"prompt", {{"a", 1}}}}, 400, "prompt: object"},
      {{{"n", 2}}, 400, "n: only 1 is built"},
      {{{"best_of", 2}}, 400, "best_of: only 1"},
      {{{"logprobs", 5}}, 400, "logprobs: 5, only 0 and 1"},
      {{{"logprobs", -1}}, 400, "logprobs: -1, only 0 and 1"},
      {{{"logprobs", true}}, 400, "logprobs: boolean, expected an integer"},
      {{{"logprobs", 0}}, 400, "no tokenizer"},
      {{{"logprobs", 0}, {"stream", true}}, 400, "logprobs: not built together with stream"},
      {{{"stream_options", json::object()}}, 400, "stream_options"},
      {{{"retrievals", 1}}, 400, "retrievals: number, expected a boolean"},
      {{{"nonsense", 1}}, 400, "unrecognized request argument: 'nonsense'"},
      {{{"mounts", {"nobody"}}}, 404, "'nobody'"}};
  for (const auto& [fields, status, message] : cases) {
    json request = {{"model", "fake"}, {"prompt", "Say hello"}};
    request.update(fields);
    ExpectRefused("/v1/completions", request, status, message);
  }
  EXPECT_EQ(Body(Complete({{"n", 2}}))["error"]["param"], "n");
}

TEST_F(HttpTest, WhatIsNoJsonIsRefused) {
  for (const char* body : {"", "{", "[]", "{\"model\": \"\xff\"}", "{\"model\": \"fake\"}{"}) {
    const std::string answer = Ask(Post("/v1/completions", body));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << body;
    EXPECT_EQ(Body(answer)["error"]["type"], "invalid_request_error");
  }
}

TEST_F(HttpTest, EngineErrorsHaveTheirStatus) {
  const std::pair<absl::Status, int> cases[] = {{absl::ResourceExhaustedError("queue"), 429},
                                                {absl::UnavailableError("lost"), 503},
                                                {absl::FailedPreconditionError("other"), 409},
                                                {absl::InternalError("ours"), 500}};
  for (const auto& [error, status] : cases) {
    engine_.Set({.error = error});
    EXPECT_THAT(Complete({}), StartsWith(absl::StrCat("HTTP/1.1 ", status, " "))) << error;
  }
}

}  // namespace
}  // namespace recollect
