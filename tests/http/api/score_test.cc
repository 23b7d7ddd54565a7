// POST /v1/score over the fake engine.
#include <cmath>
#include <tuple>

#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::StartsWith;

TEST_F(HttpTest, ScoreGivesTheNumbersOfEachToken) {
  engine_.AddDocument("d", "a document of some length");
  const std::string answer = Ask(Post(
      "/v1/score", json({{"prompt", "ab"}, {"mounts", {"d"}}, {"flush_after", {1, 2}}}).dump()));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  json body = Body(answer);
  EXPECT_NEAR(body["bits_per_byte"].get<double>(), 1 / std::log(2.0), 1e-12);
  body.erase("bits_per_byte");
  EXPECT_EQ(body, json({{"object", "score"},
                        {"tokens", {7, 8}},
                        {"logprobs", {-0.5, -1.5}},
                        {"argmax", {7, 9}},
                        {"argmax_logprobs", {-0.5, -0.25}},
                        {"text_bytes", 2},
                        {"total_logprob", -2.0},
                        {"nats_per_token", 1.0}}));
  const engine::ScoreRequest seen = engine_.seen().score;
  EXPECT_EQ(seen.prompt.text, "ab");
  EXPECT_EQ(seen.session_options.mounts, std::vector<std::string>{"d"});
  EXPECT_EQ(seen.flush_after, (std::vector<int64_t>{1, 2}));
}

TEST_F(HttpTest, ScoreRefusesByName) {
  const std::tuple<json, int, std::string> cases[] = {
      {json::object(), 400, "prompt: missing"},
      {{{"prompt", nullptr}}, 400, "prompt: empty"},
      {{{"prompt", {1, "a"}}},
       400,
       "prompt: entry 1: string, expected a string or an array of token ids"},
      {{{"prompt", "x"}, {"flush_after", 1}}, 400, "flush_after: number"},
      {{{"prompt", "x"}, {"flush_after", {2, 1}}}, 400, "flush_after: 1 after 2"},
      {{{"prompt", "x"}, {"mounts", {"nobody"}}}, 404, "'nobody'"},
      {{{"prompt", "x"}, {"window", 0.5}}, 400, "window: number 0.5, expected an integer"},
      {{{"prompt", "x"}, {"model", ""}}, 400, "model: empty"},
      {{{"prompt", "x"}, {"model", "other"}}, 404, "model: 'other'"},
      {{{"prompt", "x"}, {"max_tokens", 1}}, 400, "unrecognized request argument: 'max_tokens'"}};
  for (const auto& [fields, status, message] : cases)
    ExpectRefused("/v1/score", fields, status, message);
  EXPECT_THAT(Ask(Post("/v1/score", "{\"prompt\": \"\xc3\"}")), StartsWith("HTTP/1.1 400"));
  engine_.Set({.error = absl::ResourceExhaustedError("queue")});
  ExpectRefused("/v1/score", {{"prompt", "x"}}, 429, "queue");
}

}  // namespace
}  // namespace recollect
