// POST /v1/chat/completions over the fake engine: answers, streams, citations, cancellation.
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(HttpTest, AChatIsAnsweredWhole) {
  engine_.Set({.generation = {.cached_tokens = 5}});
  const std::string answer = Chat({});
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  const json body = Body(answer);
  EXPECT_THAT(body["id"].get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "fake");
  EXPECT_EQ(body["choices"],
            json::array({{{"index", 0},
                          {"message", {{"role", "assistant"}, {"content", "Hello"}}},
                          {"logprobs", nullptr},
                          {"finish_reason", "stop"}}}));
  EXPECT_EQ(body["usage"], json({{"prompt_tokens", 9},
                                 {"completion_tokens", 2},
                                 {"total_tokens", 11},
                                 {"prompt_tokens_details", {{"cached_tokens", 5}}}}));
  for (const char* absent : {"citations", "dropped_messages", "retrievals"})
    EXPECT_FALSE(body.contains(absent)) << absent;
  EXPECT_EQ(Body(Chat({{"max_tokens", 1}}))["choices"][0]["finish_reason"], "length");
}

TEST_F(HttpTest, AChatStreamBeginsWithTheRoleAndEndsWithUsageAndDone) {
  const std::string answer =
      Chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  EXPECT_THAT(answer, HasSubstr("text/event-stream"));
  const std::vector<json> events = Events(answer);
  ASSERT_EQ(events.size(), 5u);
  const json deltas[] = {{{"role", "assistant"}, {"content", ""}},
                         {{"content", "Hel"}},
                         {{"content", "lo"}},
                         json::object()};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    EXPECT_EQ(events[i]["choices"][0]["delta"], deltas[i]);
    EXPECT_EQ(events[i]["choices"][0]["finish_reason"], i < 3 ? json(nullptr) : json("stop"));
    EXPECT_TRUE(events[i].at("usage").is_null());
  }
  EXPECT_EQ(events[4]["choices"], json::array());
  EXPECT_EQ(events[4]["usage"]["completion_tokens"], 2);
  EXPECT_THAT(answer, HasSubstr("data: [DONE]\n\n\r\n0\r\n\r\n"));
  EXPECT_FALSE(Events(Chat({{"stream", true}}))[0].contains("usage"));
}

TEST_F(HttpTest, AnAnswerCitesTheBlocksThatItWasGiven) {
  engine_.AddDocument("d", "a document of some length");
  const json expected = json::array({{{"document", "d"},
                                      {"begin", 0},
                                      {"end", 10},
                                      {"weight", 0.5},
                                      {"quote", nullptr},
                                      {"text", "a document"}},
                                     {{"document", "d"},
                                      {"begin", 10},
                                      {"end", 20},
                                      {"weight", 0.5},
                                      {"quote", nullptr},
                                      {"text", " of some l"}}});
  EXPECT_EQ(Body(Chat({{"mounts", {"d"}}}))["citations"], expected);
  EXPECT_TRUE(engine_.seen().generate.with_retrievals);
  const std::vector<json> events = Events(
      Chat({{"mounts", {"d"}}, {"stream", true}, {"stream_options", {{"include_usage", true}}}}));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[3]["citations"], expected);  // with the reason why it ended
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "stop");
  for (const size_t i : {0, 1, 2, 4}) EXPECT_FALSE(events[i].contains("citations")) << i;
}

TEST_F(HttpTest, RetrievalsOfAChatAreShownWhereTheyAreAskedFor) {
  engine_.AddDocument("d", "a document of some length");
  const json fields = {{"retrievals", true}, {"mounts", {"d"}}};
  EXPECT_EQ(Body(Chat(fields))["retrievals"][0]["hits"].size(), 2u);
  json streamed = fields;
  streamed["stream"] = true;
  const std::vector<json> events = Events(Chat(streamed));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1]["retrieval"]["position"], 64);
  EXPECT_EQ(events[1]["choices"], json::array());
}

TEST_F(HttpTest, TheAnswerSaysHowManyMessagesHadNoRoom) {
  engine_.Set({.generation = {.dropped_messages = 2}});
  EXPECT_EQ(Body(Chat({}))["dropped_messages"], 2);
  EXPECT_EQ(Events(Chat({{"stream", true}})).back()["dropped_messages"], 2);
}

TEST_F(HttpTest, AnAnswerThatOnlyRepeatsItselfSaysWhereItDoes) {
  engine_.Set({.generation = {.pieces = {"No. ", "No. ", "No. "},
                              .reason = engine::FinishReason::kRepetition,
                              .repeats_from = 4}});
  const json whole = Body(Chat({}))["choices"][0];
  EXPECT_EQ(engine_.seen().generate.stop_repetition, std::nullopt) << "the engine decides";
  EXPECT_EQ(whole["message"]["content"], "No. ");
  EXPECT_EQ(whole["finish_reason"], "stop") << "OpenAI's clients know no other";
  EXPECT_EQ(whole["repeats_from"], 4);
  std::string streamed;
  const std::vector<json> events = Events(Chat({{"stream", true}}));
  for (const json& event : events) streamed += event["choices"][0]["delta"].value("content", "");
  EXPECT_EQ(streamed, "No. No. No. ");
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events.back()["choices"][0]["repeats_from"], 4);
  EXPECT_FALSE(events[1]["choices"][0].contains("repeats_from"));
  Chat({{"stop_repetition", false}});
  EXPECT_EQ(engine_.seen().generate.stop_repetition, false);
  EXPECT_THAT(Chat({{"stop_repetition", 1}}),
              HasSubstr("stop_repetition: number 1, expected a boolean"));
}

TEST_F(HttpTest, AnswersQuoteUnlessThatIsNotWanted) {
  Chat({});
  EXPECT_TRUE(engine_.seen().generate.quotes);
  Chat({{"quotes", false}});
  EXPECT_FALSE(engine_.seen().generate.quotes);
  EXPECT_THAT(Chat({{"quotes", 3}}), HasSubstr("quotes: number 3, expected a boolean"));
}

// The fake's tokens are 0 and 1, with the log probability -0.25, as that of the likeliest.
TEST_F(HttpTest, LogprobsOfAChatHaveItsForm) {
  const model::Tokenizer& tokenizer = StartWithTokenizer();
  const auto entry = [&](int32_t id, double logprob) {
    const std::string text(tokenizer.TokenBytes(id));
    return json({{"token", text},
                 {"logprob", logprob},
                 {"bytes", std::vector<uint8_t>(text.begin(), text.end())}});
  };
  const json fields = {{"logprobs", true}, {"top_logprobs", 2}, {"max_tokens", 2}};
  const json logprobs = Body(Chat(fields))["choices"][0]["logprobs"];
  json expected = json::array({entry(0, -0.25), entry(1, -0.25)});
  expected[0]["top_logprobs"] = {entry(0, -0.25), entry(1, -0.5)};
  expected[1]["top_logprobs"] = {entry(1, -0.25), entry(2, -0.5)};
  EXPECT_EQ(logprobs, json({{"content", expected}, {"refusal", nullptr}}));
  json streamed = fields;
  streamed["stream"] = true;
  json content;
  for (const json& event : Events(Chat(streamed))) {
    const json& some = event["choices"][0]["logprobs"];
    if (some.is_null()) continue;  // the role, and the end
    for (const json& one : some["content"]) content.push_back(one);
  }
  EXPECT_EQ(content, expected);
  const json alone = Body(Chat({{"logprobs", true}}))["choices"][0]["logprobs"];
  EXPECT_EQ(alone["content"][0]["top_logprobs"], json::array());
}

TEST_F(HttpTest, AnErrorInAChatStreamIsItsLastEvent) {
  engine_.Set({.generation = {.then_error = absl::DataLossError("chunk 3 is damaged")}});
  const std::string answer = Chat({{"stream", true}});
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Events(answer).back()["error"]["message"].get<std::string>(),
              HasSubstr("chunk 3 is damaged"));
  EXPECT_THAT(Chat({}), StartsWith("HTTP/1.1 500"));
  engine_.Set({.error = absl::FailedPreconditionError("prompt.messages: no chat template")});
  const std::string refused = Chat({{"stream", true}});
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 409"));
  EXPECT_EQ(Body(refused)["error"]["param"], "messages");
}

TEST_F(HttpTest, AClientThatGoesCancelsItsChat) {
  engine_.AddDocument("d", "a document of some length");
  engine_.Set({.generation = {.then_wait = true}});
  for (const bool stream : {false, true}) {
    const int64_t before = engine_.seen().cancelled;
    {
      const Socket socket(server_->address());
      socket.Send(Post("/v1/chat/completions",
                       json({{"model", "fake"},
                             {"messages", json::array({{{"role", "user"}, {"content", "x"}}})},
                             {"mounts", {"d"}},
                             {"stream", stream}})
                           .dump()));
      if (stream) socket.ReadUntil("lo");
    }
    engine_.Await([&](const FakeEngine::Seen& seen) { return seen.cancelled > before; });
  }
}

TEST_F(HttpTest, TheModelSaysWhetherItHasAChatTemplate) {
  EXPECT_EQ(Body(Ask(Get("/v1/models")))["data"][0]["chat"], false);
  Start({.listen = "127.0.0.1:0", .model_name = "fake", .chat = true});
  EXPECT_EQ(Body(Ask(Get("/v1/models")))["data"][0]["chat"], true);
  EXPECT_EQ(Body(Ask(Get("/v1/models/fake")))["chat"], true);
}

}  // namespace
}  // namespace recollect
