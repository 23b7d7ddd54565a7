// What POST /v1/chat/completions takes and refuses.
#include <tuple>

#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::StartsWith;

json Message(const char* role, const json& content) {
  return {{"role", role}, {"content", content}};
}

TEST_F(HttpTest, MessagesReachTheEngine) {
  const json parts =
      json::array({{{"type", "text"}, {"text", "first"}}, {{"type", "text"}, {"text", "second"}}});
  json answered = Message("assistant", "<|im_end|>");
  // As the openai package writes an answer that is sent back.
  for (const char* name : {"refusal", "audio", "function_call", "tool_calls"})
    answered[name] = nullptr;
  answered["annotations"] = json::array();
  const std::string answer =
      Chat({{"messages",
             {Message("system", "s"), Message("developer", ""), Message("user", parts), answered,
              Message("assistant", ""), Message("user", "\u00e4")}}});
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200")) << answer;
  EXPECT_EQ(engine_.seen().generate.prompt.messages,
            (std::vector<ChatMessage>{{ChatRole::kSystem, "s"},
                                      {ChatRole::kSystem, ""},
                                      {ChatRole::kUser, "first\nsecond"},
                                      {ChatRole::kAssistant, "<|im_end|>"},
                                      {ChatRole::kAssistant, ""},
                                      {ChatRole::kUser, "\u00e4"}}));
}

TEST_F(HttpTest, FieldsOfAChatReachTheEngine) {
  StartWithTokenizer();
  engine_.AddDocument("d", "a document of some length");
  const std::string answer = Chat({{"mounts", {"d"}},
                                   {"mount_as", "text"},
                                   {"text_tokens", 256},
                                   {"stop", {"a", "b"}},
                                   {"temperature", 0.5},
                                   {"top_p", 0.25},
                                   {"top_k", 7},
                                   {"seed", 9},
                                   {"max_completion_tokens", 3},
                                   {"max_tokens", 3},
                                   {"logprobs", true},
                                   {"top_logprobs", 4}});
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200")) << answer;
  const engine::GenerateRequest seen = engine_.seen().generate;
  EXPECT_EQ(seen.session_options.mounts, std::vector<std::string>{"d"});
  EXPECT_EQ(seen.session_options.mount_as, engine::MountAs::kText);
  EXPECT_EQ(seen.session_options.text_tokens, 256);
  EXPECT_EQ(seen.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(seen.sampling.temperature, 0.5);
  EXPECT_EQ(seen.sampling.top_p, 0.25);
  EXPECT_EQ(seen.sampling.top_k, 7);
  EXPECT_EQ(seen.sampling.seed, 9u);
  EXPECT_EQ(seen.max_tokens, 3);
  EXPECT_EQ(seen.logprobs, 4);
}

TEST_F(HttpTest, AChatHasDefaultsOfItsOwn) {
  Chat({});
  const engine::GenerateRequest seen = engine_.seen().generate;
  EXPECT_EQ(seen.max_tokens, 1024);
  EXPECT_EQ(seen.sampling.temperature, 0);
  EXPECT_FALSE(seen.with_retrievals);
  EXPECT_FALSE(seen.logprobs.has_value());
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    Chat({{name, 5}});
    EXPECT_EQ(engine_.seen().generate.max_tokens, 5) << name;
    Chat({{name, -1}});
    EXPECT_EQ(engine_.seen().generate.max_tokens, 65536) << name;
  }
}

TEST_F(HttpTest, WhatChangesNothingIsTaken) {
  const json neutral = {{"n", 1},
                        {"tools", json::array()},
                        {"tool_choice", "none"},
                        {"functions", nullptr},
                        {"response_format", {{"type", "text"}}},
                        {"modalities", json::array({"text"})},
                        {"logit_bias", json::object()},
                        {"presence_penalty", 0.0},
                        {"frequency_penalty", 0},
                        {"service_tier", "auto"},
                        {"store", false},
                        {"metadata", {{"chat", "7"}}},
                        {"user", "u"},
                        {"prompt_cache_key", "k"},
                        {"logprobs", false},
                        {"top_logprobs", nullptr},
                        {"max_tokens", nullptr}};
  const std::string answer = Chat(neutral);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200")) << answer;
}

TEST_F(HttpTest, BadFieldsOfAChatAreNamed) {
  const std::tuple<json, std::string, json> cases[] = {
      {{{"n", 2}}, "n: 2, only 1 is built here", "n"},
      {{{"tools", {{{"type", "function"}}}}}, "tools: [{", "tools"},
      {{{"tool_choice", "required"}}, "tool_choice: \"required\"", "tool_choice"},
      {{{"functions", {{{"name", "f"}}}}}, "functions: [{", "functions"},
      {{{"response_format", {{"type", "json_object"}}}}, "response_format: {", "response_format"},
      {{{"logit_bias", {{"5", 1}}}}, "logit_bias: {", "logit_bias"},
      {{{"presence_penalty", 0.5}}, "presence_penalty: 0.5, only 0", "presence_penalty"},
      {{{"audio", {{"voice", "v"}}}}, "audio: {", "audio"},
      {{{"store", true}}, "store: true, only false", "store"},
      {{{"max_tokens", 3}, {"max_completion_tokens", 4}}, "max_tokens: 3, but", "max_tokens"},
      {{{"max_completion_tokens", "4"}}, "max_completion_tokens: string", "max_completion_tokens"},
      {{{"max_completion_tokens", 65537}},
       "max_completion_tokens: 65537, limit -1 to 65536",
       "max_completion_tokens"},
      {{{"logprobs", 3}}, "logprobs: number 3, expected a boolean", "logprobs"},
      {{{"top_logprobs", 3}}, "top_logprobs: only together with logprobs", "top_logprobs"},
      {{{"logprobs", true}, {"top_logprobs", 21}},
       "top_logprobs: 21, limit 0 to 20",
       "top_logprobs"},
      {{{"logprobs", true}}, "logprobs: the model has no tokenizer", "logprobs"},
      {{{"mount_as", "image"}}, "mount_as: 'image', expected", "mount_as"},
      {{{"stream_options", {{"include_usage", true}}}}, "stream_options: ", "stream_options"},
      {{{"prompt", "x"}}, "unrecognized request argument: 'prompt'", nullptr},
      {{{"echo", true}}, "unrecognized request argument: 'echo'", nullptr}};
  for (const auto& [fields, message, param] : cases) {
    json request = {{"model", "fake"}, {"messages", json::array({Message("user", "hello")})}};
    request.update(fields);
    ExpectRefused("/v1/chat/completions", request, 400, message);
    EXPECT_EQ(Body(Chat(fields))["error"]["param"], param) << fields;
  }
}

TEST_F(HttpTest, BadMessagesAreNamed) {
  const json user = Message("user", "hello"), image = {{"type", "image_url"}, {"image_url", "x"}};
  json named = user, called = Message("assistant", "x"), strange = user;
  named["name"] = "Ahab";
  called["tool_calls"] = {{{"id", "1"}}};
  strange["colour"] = "red";
  const std::pair<json, std::string> cases[] = {
      {nullptr, "messages: missing"},
      {json::array(), "messages: empty, needs at least one"},
      {"hello", "messages: string, expected an array of messages"},
      {{user, 3}, "messages[1]: number, expected an object"},
      {json::array({{{"content", "x"}}}), "messages[0].role: missing"},
      {json::array({{{"role", 1}, {"content", "x"}}}),
       "messages[0].role: number 1, expected a string"},
      {json::array({Message("tool", "x")}),
       "messages[0].role: 'tool', only system, developer, user and"},
      {json::array({Message("function", "x")}), "messages[0].role: 'function'"},
      {{user, {{"role", "user"}}}, "messages[1].content: missing"},
      {{user, Message("user", nullptr)}, "messages[1].content: missing"},
      {json::array({Message("user", "")}), "messages[0].content: empty"},
      {json::array({Message("user", json::array())}), "messages[0].content: empty"},
      {json::array({Message("user", 5)}),
       "messages[0].content: number 5, expected a string or an array"},
      {json::array({Message("user", {"x"})}), "messages[0].content[0]: string, expected an object"},
      {json::array({Message("user", {{{"type", "text"}, {"text", "x"}}, image})}),
       "messages[0].content[1].type: 'image_url', only 'text' is built here"},
      {json::array({Message("user", {{{"type", "text"}}})}),
       "messages[0].content[0].text: missing"},
      {json::array({Message("user", {{{"type", "text"}, {"text", 4}}})}),
       "messages[0].content[0].text: number 4, expected a string"},
      {json::array({named}), "messages[0].name: \"Ahab\", only null is built here"},
      {{user, called}, "messages[1].tool_calls: [{"},
      {json::array({strange}), "messages[0].colour: unknown field"}};
  for (const auto& [messages, message] : cases) {
    ExpectRefused("/v1/chat/completions", {{"model", "fake"}, {"messages", messages}}, 400,
                  message);
  }
  EXPECT_EQ(Body(Chat({{"messages", json::array({Message("tool", "x")})}}))["error"]["param"],
            "messages");
}

TEST_F(HttpTest, RequestsMayLeaveOutTheModel) {
  const json chat = {{"messages", json::array({Message("user", "x")})}};
  for (const auto& [path, body] : {std::pair<std::string, json>{"/v1/chat/completions", chat},
                                   {"/v1/completions", {{"prompt", "x"}}},
                                   {"/v1/embeddings", {{"input", "x"}}}}) {
    const std::string answer = Ask(Post(path, body.dump()));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200")) << path;
    EXPECT_EQ(Body(answer)["model"], "fake") << path;
  }
}

TEST_F(HttpTest, AChatOfAnotherModelOrDocumentIsNotFound) {
  ExpectRefused("/v1/chat/completions",
                {{"model", "other"}, {"messages", json::array({Message("user", "x")})}}, 404,
                "model: 'other'");
  EXPECT_THAT(Chat({{"mounts", {"nobody"}}}), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Ask(Get("/v1/chat/completions")), StartsWith("HTTP/1.1 405"));
}

}  // namespace
}  // namespace recollect
