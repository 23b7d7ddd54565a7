// save_as over the fake engine: a conversation that is kept as a document, turn by turn.
#include "tests/http/http_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class SavedTurnTest : public HttpTest {
 protected:
  json Message(const std::string& role, const std::string& content) const {
    return {{"role", role}, {"content", content}};
  }
  std::string TextOf(const std::string& id) {
    const auto info = engine_.GetDocument(id);
    return info.ok() ? engine_.ReadText(id, 0, info->bytes).value_or("") : "none";
  }
};

TEST_F(SavedTurnTest, AConversationIsKeptUnderTheSameIdAtEachTurn) {
  json messages = {Message("system", "Be brief."), Message("user", "Who?")};
  const json first = Body(Chat({{"messages", messages}, {"save_as", "talks/1"}}));
  std::string text = "user: Who?\nassistant: Hello\n";
  EXPECT_EQ(TextOf("talks/1"), text);
  EXPECT_EQ(first["saved"]["id"], "talks/1");
  EXPECT_EQ(first["saved"]["bytes"], text.size());
  EXPECT_EQ(first["saved"]["tokens"], text.size());
  EXPECT_EQ(first["saved"]["sha256"], engine_.GetDocument("talks/1")->sha256);
  EXPECT_FALSE(first["saved"].contains("error"));
  messages.push_back(Message("assistant", " Hello"));  // as clients send it back
  messages.push_back(Message("user", "When?"));
  Chat({{"messages", messages}, {"save_as", "talks/1"}});
  text += "user: When?\nassistant: Hello\n";
  EXPECT_EQ(TextOf("talks/1"), text);
}

TEST_F(SavedTurnTest, TheSameQuestionAgainReplacesItsAnswer) {
  Chat({{"save_as", "talk"}});
  engine_.Set({.generation = {.pieces = {"Good ", "day"}}});
  EXPECT_FALSE(Body(Chat({{"save_as", "talk"}}))["saved"].contains("error"));
  EXPECT_EQ(TextOf("talk"), "user: Say hello\nassistant: Good day\n");
  // But not what was said after it.
  json messages = {Message("user", "Say hello"), Message("assistant", "Good day"),
                   Message("user", "More")};
  Chat({{"messages", messages}, {"save_as", "talk"}});
  const std::string refused = Chat({{"save_as", "talk"}});
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 409"));
  EXPECT_THAT(TextOf("talk"), HasSubstr("user: More\n"));
}

TEST_F(SavedTurnTest, AStreamSaysSoInItsLastEventWithAChoice) {
  const std::string answer =
      Chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}, {"save_as", "talk"}});
  const std::vector<json> events = Events(answer);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[3]["saved"]["id"], "talk");
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "stop");
  for (const size_t i : {0, 1, 2, 4}) EXPECT_FALSE(events[i].contains("saved")) << i;
}

TEST_F(SavedTurnTest, ACompletionIsKeptAsPromptAndText) {
  const json answer = Body(Complete({{"prompt", "Say "}, {"save_as", "text"}}));
  EXPECT_EQ(answer["saved"]["bytes"], 9);
  EXPECT_EQ(TextOf("text"), "Say Hello");
  Complete({{"prompt", "Say Hello again: "}, {"save_as", "text"}, {"stream", true}});
  EXPECT_EQ(TextOf("text"), "Say Hello again: Hello");
  ExpectRefused("/v1/completions",
                {{"model", "fake"}, {"prompt", {"a", "b", "c"}}, {"save_as", "text"}}, 400,
                "save_as: with 3 prompts, expected one");
}

TEST_F(SavedTurnTest, WhatIsWrongIsSaidBeforeTheFirstEvent) {
  engine_.AddDocument("book", "another text");
  const auto writer = engine_.BeginIngest("busy", false, {});
  const struct {
    json id;
    int status;
    const char* message;
  } kWrong[] = {{"", 400, "save_as: id: bytes: 0, limit 1 to 256"},
                {std::string(257, 'x'), 400, "save_as: id: bytes: 257, limit 1 to 256"},
                {"a,b", 400, "commas"},
                {"a*", 400, "asterisk"},
                {3, 400, "save_as: number 3, expected a string"},
                {"book", 409, "save_as: document \"book\" exists"},
                {"busy", 409, "another stream"}};
  for (const bool stream : {false, true}) {
    for (const auto& [id, status, message] : kWrong) {
      const std::string answer = Chat({{"save_as", id}, {"stream", stream}});
      EXPECT_THAT(answer, StartsWith(absl::StrCat("HTTP/1.1 ", status, " "))) << id;
      EXPECT_THAT(Body(answer)["error"]["message"].get<std::string>(), HasSubstr(message));
    }
  }
  EXPECT_EQ(TextOf("book"), "another text");
  EXPECT_FALSE(Body(Chat({{"save_as", "book"}, {"replace", true}}))["saved"].contains("error"));
  EXPECT_THAT(TextOf("book"), StartsWith("user: Say hello"));
  EXPECT_THAT(Chat({{"replace", true}}), HasSubstr("replace: only together with save_as"));
}

TEST_F(SavedTurnTest, AnAnswerThatFailsIsNotKept) {
  engine_.Set({.generation = {.then_error = absl::DataLossError("chunk 3 is damaged")}});
  EXPECT_THAT(Chat({{"save_as", "talk"}}), StartsWith("HTTP/1.1 500"));
  EXPECT_EQ(TextOf("talk"), "none");
  engine_.Set({.generation = {.then_wait = true}});
  {
    const Socket socket(server_->address());
    const json fields = {{"model", "fake"},
                         {"messages", {Message("user", "x")}},
                         {"stream", true},
                         {"save_as", "talk"}};
    socket.Send(Post("/v1/chat/completions", fields.dump()));
    socket.ReadUntil("lo");
  }
  engine_.Await(
      [](const FakeEngine::Seen& seen) { return seen.cancelled > 0 && seen.ingests == 0; });
  EXPECT_EQ(TextOf("talk"), "none");
}

TEST_F(SavedTurnTest, AnAnswerThatCannotBeKeptIsWhole) {
  engine_.Set({.generation = {.pieces = {"Hel", "lo"}, .then_wait = true}});
  const Socket socket(server_->address());
  const json fields = {{"model", "fake"},
                       {"messages", {Message("user", "x")}},
                       {"max_tokens", 65536},
                       {"stream", true},
                       {"save_as", "talk"}};
  socket.Send(Post("/v1/chat/completions", fields.dump()));
  socket.ReadUntil("lo");
  ASSERT_THAT(engine_.DeleteDocument("talk"), IsOk());  // while it is generated
  engine_.Shutdown(absl::InfiniteFuture());
  const std::vector<json> events = Events(socket.ReadUntil("[DONE]"));
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events.back()["saved"]["id"], "talk");
  EXPECT_THAT(events.back()["saved"]["error"]["message"].get<std::string>(),
              HasSubstr("saving \"talk\": "));
}

}  // namespace
}  // namespace recollect
