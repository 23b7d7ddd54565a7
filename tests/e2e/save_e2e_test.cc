// A conversation that is kept turn by turn, and remembered after a restart.
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/e2e/server_testing.h"
#include "tests/http/http_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_llama.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class SaveE2eTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    json config = TinyLlamaConfig();
    config["max_position_embeddings"] = 4096;
    WriteTinyLlama(Path("llama"), config);
    WriteGguf(Path("llama"), Path("tiny.gguf"));
    StartChat();
  }
  void StartChat() {
    auto arguments = Serve(Path("tiny.gguf"), "auto");
    arguments.insert(arguments.end(), {"--http-listen", "127.0.0.1:0"});
    Start(arguments);
  }
  json Chat(const json& fields) const { return Ask("/v1/chat/completions", fields); }
  json Ask(const std::string& path, json fields) const {
    fields["model"] = client_->GetModel()->name();
    fields["max_tokens"] = 6;
    const Socket socket(http_);
    socket.Send(Post(path, fields.dump()));
    const std::string answer = socket.ReadAll();
    return json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
  }
  std::string TextOf(const std::string& id) const {
    const auto document = client_->GetDocument(id);
    return document.ok() ? client_->ReadText(id, 0, document->bytes()).value() : "none";
  }
};

TEST_F(SaveE2eTest, AConversationIsRememberedAfterARestart) {
  json messages = {{{"role", "user"}, {"content", "The amber falcon sleeps in the harbour."}}};
  const json first = Chat({{"messages", messages}, {"save_as", "talks/1"}});
  ASSERT_TRUE(first.contains("saved")) << first;
  EXPECT_GT(first["saved"]["tokens"].get<int64_t>(), 10) << first;
  messages.push_back(first["choices"][0]["message"]);
  messages.push_back({{"role", "user"}, {"content", "And the whale?"}});
  const json second = Chat({{"messages", messages}, {"save_as", "talks/1"}});
  EXPECT_GT(second["saved"]["bytes"], first["saved"]["bytes"]);
  const std::string text = TextOf("talks/1");
  EXPECT_THAT(text, StartsWith("user: The amber falcon sleeps in the harbour.\n"));
  EXPECT_THAT(text, HasSubstr("\nuser: And the whale?\n"));
  EXPECT_EQ(StopServer(), 0);

  StartChat();
  EXPECT_EQ(TextOf("talks/1"), text);
  const json later =
      Chat({{"messages", {{{"role", "user"}, {"content", "Where does the amber falcon sleep?"}}}},
            {"mounts", {"talks/*"}}});
  EXPECT_EQ(later["citations"][0]["document"], "talks/1") << later;
  EXPECT_THAT(later["citations"][0]["text"].get<std::string>(), HasSubstr("amber falcon"));
  // Another conversation does not take its place.
  json other = {{{"role", "user"}, {"content", "Something else."}}};
  EXPECT_EQ(Chat({{"messages", other}, {"save_as", "talks/1"}})["error"]["code"], "already_exists");
  EXPECT_EQ(TextOf("talks/1"), text);
  EXPECT_EQ(StopServer(), 0);
}

// The text of a prompt, which is kept, is of ids that the vocabulary has.
TEST_F(SaveE2eTest, IdsThatThereAreNotAreRefusedWhereTheirTextIsKept) {
  for (const int32_t id : {-1, 1 << 30}) {
    const std::string refusal = absl::StrCat("prompt: token 1: id ", id, " is unknown");
    const json saved = Ask("/v1/completions", {{"prompt", {5, id}}, {"save_as", "ids"}});
    EXPECT_EQ(saved["error"]["message"], refusal) << saved;
    v1::GenerateRequest request;
    request.set_session_id(client_->OpenSession({}).value().id());
    request.mutable_prompt()->add_tokens(5);
    request.mutable_prompt()->add_tokens(id);
    EXPECT_THAT(client_->Generate(request), StatusIs(absl::StatusCode::kInvalidArgument, refusal));
    v1::ScoreRequest score;
    score.set_session_id(request.session_id());
    *score.mutable_prompt() = request.prompt();
    EXPECT_THAT(client_->Score(score), StatusIs(absl::StatusCode::kInvalidArgument, refusal));
  }
  EXPECT_EQ(TextOf("ids"), "none");
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(SaveE2eTest, ASessionIsSavedByItsServer) {
  v1::GenerateRequest request;
  request.set_session_id(client_->OpenSession({}).value().id());
  request.mutable_prompt()->set_text("The amber falcon");
  request.set_max_tokens(6);
  const std::string said = "The amber falcon" + client_->Generate(request).value().text;
  v1::SaveSessionRequest save;
  save.set_session_id(request.session_id());
  save.set_document_id("talk");
  ASSERT_TRUE(client_->SaveSession(save).ok());
  EXPECT_EQ(StopServer(), 0);
  StartChat();
  EXPECT_EQ(TextOf("talk"), said);
  EXPECT_EQ(StopServer(), 0);
}

}  // namespace
}  // namespace recollect
