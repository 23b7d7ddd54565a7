// POST /v1/completions over the fake engine: answers, streams, cancellation, refusals.
#include <tuple>
#include <vector>

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
  EXPECT_EQ(body["usage"], json({{"prompt_tokens", 9},
                                 {"completion_tokens", 2},
                                 {"total_tokens", 11},
                                 {"prompt_tokens_details", {{"cached_tokens", 0}}}}));
  const engine::GenerateRequest seen = engine_.seen().generate;
  EXPECT_EQ(seen.prompt.text, "Say hello");
  EXPECT_EQ(seen.sampling.seed, 7u);
  EXPECT_EQ(seen.sampling.temperature, 0.5);
  EXPECT_EQ(seen.max_tokens, 8);
}

TEST_F(HttpTest, SeedsOfAllSizesAreTaken) {
  const std::pair<json, uint64_t> cases[] = {{0, 0},
                                             {-1, ~uint64_t{0}},
                                             {~uint64_t{0}, ~uint64_t{0}},
                                             {uint64_t{1} << 63, uint64_t{1} << 63}};
  for (const auto& [seed, expected] : cases) {
    EXPECT_THAT(Complete({{"seed", seed}}), StartsWith("HTTP/1.1 200")) << seed;
    EXPECT_EQ(engine_.seen().generate.sampling.seed, expected);
  }
}

TEST_F(HttpTest, FieldsReachTheEngine) {
  engine_.AddDocument("d", "a document of some length");
  Complete({{"prompt", {{3, 4}}},
            {"stop", "."},
            {"mounts", {"d"}},
            {"dilation", 4},
            {"layer_windows", {{1, 2}, {3}}},
            {"mount_as", "both"},
            {"text_tokens", 300},
            {"dry_multiplier", 0.5},
            {"dry_allowed_length", 3},
            {"stop_repetition", true},
            {"top_p", 0.25}});
  const engine::GenerateRequest seen = engine_.seen().generate;
  EXPECT_EQ(seen.stop_repetition, true);
  EXPECT_EQ(seen.prompt.tokens, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(seen.stop, std::vector<std::string>{"."});
  EXPECT_EQ(seen.session_options.mounts, std::vector<std::string>{"d"});
  EXPECT_EQ(seen.session_options.dilation, 4);
  EXPECT_EQ(seen.session_options.layer_windows, (engine::LayerNumbers{{1, 2}, {3}}));
  EXPECT_EQ(seen.session_options.mount_as, engine::MountAs::kBoth);
  EXPECT_EQ(seen.session_options.text_tokens, 300);
  EXPECT_EQ(seen.sampling.dry_multiplier, 0.5);
  EXPECT_EQ(seen.sampling.dry_allowed_length, 3);
  EXPECT_EQ(seen.sampling.top_p, 0.25);
  EXPECT_EQ(seen.max_tokens, 16);
}

TEST_F(HttpTest, AStreamEndsWithUsageAndDone) {
  const std::string answer =
      Complete({{"stream", true},
                {"echo", true},
                {"stream_options", {{"include_usage", true}, {"include_obfuscation", true}}}});
  EXPECT_THAT(answer, HasSubstr("text/event-stream"));
  std::string text;
  const std::vector<json> chunks = Events(answer);
  for (const json& chunk : chunks)
    for (const json& choice : chunk["choices"]) text += choice["text"];
  EXPECT_EQ(text, "Say helloHello");
  ASSERT_EQ(chunks.size(), 5u);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(chunks[i].at("usage").is_null()) << chunks[i];
  EXPECT_EQ(chunks[3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(chunks[4]["usage"]["completion_tokens"], 2);
  EXPECT_THAT(answer, HasSubstr("data: [DONE]\n\n\r\n0\r\n\r\n"));
}

TEST_F(HttpTest, RetrievalsAreEventsBetweenTheTexts) {
  engine_.AddDocument("d", "a document of some length");
  const std::vector<json> events =
      Events(Complete({{"stream", true}, {"echo", true}, {"retrievals", true}, {"mounts", {"d"}}}));
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

// The fake's tokens are 0 and 1, with the log probability -0.25, as that of the likeliest.
TEST_F(HttpTest, LogprobsComeWithTheTokens) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  const auto text = [&](int32_t id) { return std::string(tokenizer.TokenBytes(id)); };
  const json logprobs =
      Body(Complete({{"logprobs", 3}, {"max_tokens", 2}}))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json({text(0), text(1)}));
  EXPECT_EQ(logprobs["token_logprobs"], json({-0.25, -0.25}));
  EXPECT_EQ(logprobs["top_logprobs"],
            json::array({{{text(0), -0.25}, {text(1), -0.5}, {text(2), -0.75}},
                         {{text(1), -0.25}, {text(2), -0.5}, {text(3), -0.75}}}));
  EXPECT_EQ(logprobs["text_offset"][0], 0);
  EXPECT_EQ(engine_.seen().generate.logprobs, 3);
  EXPECT_TRUE(engine_.seen().score.prompt.text.empty());  // nothing was read twice
  EXPECT_EQ(Body(Complete({{"logprobs", 0}}))["choices"][0]["logprobs"]["top_logprobs"], nullptr);
  EXPECT_EQ(Body(Complete({}))["choices"][0]["logprobs"], nullptr);
}

TEST_F(HttpTest, EchoWithLogprobsScoresThePrompt) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  const auto text = [&](int32_t id) { return std::string(tokenizer.TokenBytes(id)); };
  const json choice =
      Body(Complete({{"echo", true}, {"logprobs", 0}, {"max_tokens", 1}}))["choices"][0];
  EXPECT_EQ(engine_.seen().score.prompt.text, "Say hello");
  EXPECT_EQ(choice["text"], "Say helloHel");
  EXPECT_EQ(choice["logprobs"]["tokens"], json({text(7), text(8), text(0)}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], json({-0.5, -1.5, -0.25}));
  EXPECT_EQ(choice["logprobs"]["text_offset"],
            json({0, text(7).size(), text(7).size() + text(8).size()}));
}

// As clients cut strings.
TEST_F(HttpTest, OffsetsCountCharacters) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  const std::string prompt = "n\xc3\xa9 \xe2\x82\xac, \xf0\x9d\x84\x9e o";
  FakeEngine::Script script;
  script.score.tokens = script.score.argmax = tokenizer.Encode(prompt).value();
  script.score.logprobs.assign(script.score.tokens.size(), -0.5f);
  script.score.argmax_logprobs = script.score.logprobs;
  engine_.Set(script);
  // Of each byte the character in which it lies.
  std::vector<int> characters;
  std::vector<size_t> begins;
  int character = -1;
  for (const int32_t token : script.score.tokens) {
    begins.push_back(characters.size());
    for (const char byte : tokenizer.TokenBytes(token)) {
      if ((static_cast<unsigned char>(byte) & 0xC0) != 0x80) ++character;
      characters.push_back(character);
    }
  }
  std::vector<int> offsets;
  for (const size_t begin : begins) offsets.push_back(characters[begin]);
  EXPECT_LT(offsets.back(), static_cast<int>(begins.back())) << "the text has no such characters";
  const json fields = {{"prompt", prompt}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}};
  EXPECT_EQ(Body(Complete(fields))["choices"][0]["logprobs"]["text_offset"], json(offsets));
}

TEST_F(HttpTest, EndsOfRangesMeanWhatClientsMean) {
  Complete({{"max_tokens", -1}});
  const int64_t most = engine_.seen().generate.max_tokens;
  EXPECT_EQ(most, 65536);
  ExpectRefused("/v1/completions", {{"model", "fake"}, {"prompt", "x"}, {"max_tokens", most + 1}},
                400, absl::StrCat("limit -1 to ", most));
  Complete({{"top_p", 0}, {"temperature", 1}});
  EXPECT_EQ(engine_.seen().generate.sampling.top_p, 1);
  EXPECT_EQ(engine_.seen().generate.sampling.top_k, 1) << "the likeliest token alone";
}

// As clients read it (lm_eval): a token was the greedy choice where no other of its row has more.
TEST_F(HttpTest, TopLogprobsHaveTheChosenAndTheLikeliestTokens) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  const auto text = [&](int32_t id) { return std::string(tokenizer.TokenBytes(id)); };
  const std::vector<int32_t> ids = tokenizer.Encode("ab").value();
  ASSERT_EQ(ids.size(), 2u);
  engine_.Set({.score = {{ids[0], ids[1], ids[0]},
                         {0, -0.5f, -1.5f},
                         {-1, ids[1], ids[1]},
                         {0, -0.5f, -0.25f},
                         3}});
  for (const int64_t asked : {1, 2}) {  // the fake has one only
    const json logprobs = Body(Complete(
        {{"echo", true}, {"logprobs", asked}, {"max_tokens", 0}}))["choices"][0]["logprobs"];
    EXPECT_EQ(engine_.seen().score.top_logprobs, asked);
    EXPECT_EQ(logprobs["tokens"], json({text(ids[0]), text(ids[1]), text(ids[0])}));
    EXPECT_EQ(logprobs["token_logprobs"], json({nullptr, -0.5, -1.5}));
    EXPECT_EQ(
        logprobs["top_logprobs"],
        json::array(
            {nullptr, {{text(ids[1]), -0.5}}, {{text(ids[0]), -1.5}, {text(ids[1]), -0.25}}}));
  }
}

TEST_F(HttpTest, AStreamHasTheLogprobsOfItsTokens) {
  StartWithTokenizer();
  for (const bool echo : {false, true}) {
    json fields = {{"echo", echo}, {"logprobs", 2}, {"max_tokens", 5}};
    engine_.Set({.generation = {.reason = engine::FinishReason::kEos}});
    const json whole = Body(Complete(fields))["choices"][0]["logprobs"];
    ASSERT_EQ(whole["tokens"].size(), echo ? 5u : 3u);
    fields["stream"] = true;
    json streamed;
    for (const json& event : Events(Complete(fields))) {
      const json& logprobs = event["choices"][0]["logprobs"];
      ASSERT_TRUE(logprobs.is_object()) << event;  // here each event has tokens
      for (const auto& [name, values] : logprobs.items())
        for (const json& value : values) streamed[name].push_back(value);
    }
    EXPECT_EQ(streamed, whole);
  }
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
  const json choice = Body(Complete({{"logprobs", 0}, {"max_tokens", 1}}))["choices"][0];
  EXPECT_EQ(choice["text"], "");
  EXPECT_EQ(choice["logprobs"]["tokens"],
            json::array({std::string(tokenizer.TokenBytes(FakeEngine::kEndToken))}));
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
      {{{"model", 3}}, 400, "model: number 3, expected a string"},
      {{{"max_tokens", "8"}}, 400, "max_tokens: string, expected an integer"},
      {{{"max_tokens", 1.5}}, 400, "max_tokens: number 1.5, expected an integer"},
      {{{"max_tokens", -2}}, 400, "max_tokens: -2, limit -1 to 65536"},
      {{{"max_tokens", 99999999999999999999.0}}, 400, "max_tokens: number 1e+20, expected"},
      {{{"max_tokens", uint64_t{1} << 63}}, 400, "max_tokens: number 9223372036854775808, expec"},
      {{{"temperature", 1e6}}, 400, "temperature: 1e+06"},
      {{{"top_p", -0.5}}, 400, "top_p: -0.5, limit 0 to 1"},
      {{{"seed", 0.5}}, 400, "seed: number 0.5, expected an integer"},
      {{{"suffix", std::string(9999, 'x')}}, 400, "suffix: "},
      {{{"mounts", {""}}}, 400, "mounts: id: bytes: 0, limit 1 to 256"},
      {{{"prompt", {1, 5000000000}}}, 400, "prompt: entry 1: number 5000000000"},
      {{{"prompt", {{"a", 1}}}}, 400, "prompt: object"},
      {{{"prompt", std::string(2097153, 'x')}}, 400, "prompt: bytes: 2097153, limit 0 to 2097152"},
      {{{"prompt", json(std::vector<int>(262145))}}, 400, "prompt: count: 262145, limit 0 to 26"},
      {{{"dilation", 0}}, 400, "dilation: 0, limit 1 to 4096, or -1 for none"},
      {{{"layer_windows", {{-1}}}}, 400, "layer_windows: -1, limit 0"},
      {{{"n", 2}}, 400, "n: 2, only 1 is built"},
      {{{"best_of", 2}}, 400, "best_of: 2, only 1"},
      {{{"logprobs", 21}}, 400, "logprobs: 21, limit 0 to 20"},
      {{{"logprobs", -1}}, 400, "logprobs: -1, limit 0 to 20"},
      {{{"logprobs", 20}, {"max_tokens", 65536}}, 400, "logprobs: 20 for each of 65536 tokens"},
      {{{"logprobs", true}}, 400, "logprobs: boolean, expected an integer"},
      {{{"logprobs", 0}}, 400, "no tokenizer"},
      {{{"stream_options", json::object()}}, 400, "stream_options"},
      {{{"mount_as", "picture"}}, 400, "mount_as: 'picture', expected 'memory', 'text' or 'both'"},
      {{{"mount_as", 1}}, 400, "mount_as: number 1, expected a string"},
      {{{"text_tokens", "9"}}, 400, "text_tokens: string, expected an integer"},
      {{{"retrievals", 1}}, 400, "retrievals: number 1, expected a boolean"},
      {{{"nonsense", 1}}, 400, "unrecognized request argument: 'nonsense'"},
      {{{"mounts", {"nobody"}}}, 404, "'nobody'"}};
  for (const auto& [fields, status, message] : cases) {
    json request = {{"model", "fake"}, {"prompt", "Say hello"}};
    request.update(fields);
    ExpectRefused("/v1/completions", request, status, message);
  }
  const std::tuple<json, json> params[] = {{{{"n", 2}}, "n"},
                                           {{{"temperature", -1}}, "temperature"},
                                           {{{"top_p", 2}}, "top_p"},
                                           {{{"mounts", {""}}}, "mounts"},
                                           {{{"nonsense", 1}}, nullptr}};
  for (const auto& [fields, param] : params) {
    EXPECT_EQ(Body(Complete(fields))["error"]["param"], param) << fields;
  }
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
