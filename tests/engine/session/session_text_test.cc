#include "engine/session/session_text.h"

#include "base/turns_text.h"
#include "gtest/gtest.h"

namespace recollect::engine {
namespace {

std::vector<ChatMessage> Conversation() {
  return {{ChatRole::kSystem, "Be brief."},
          {ChatRole::kUser, "When did the ship sail?\n"},
          {ChatRole::kAssistant, " In May.\nOn the first."},
          {ChatRole::kUser, "  "},
          {ChatRole::kUser, "And who sailed it?"}};
}

TEST(SessionTextTest, AConversationIsItsTurnsWithoutTheSystemMessage) {
  EXPECT_EQ(TurnsText(Conversation()),
            "user: When did the ship sail?\n"
            "assistant: In May.\nOn the first.\n"
            "user: And who sailed it?\n");
  EXPECT_EQ(TurnsText({}), "");
}

TEST(SessionTextTest, AConversationThatGrowsBeginsWithWhatItWas) {
  std::vector<ChatMessage> messages = Conversation();
  const std::string before = TurnsText(messages);
  messages.push_back({ChatRole::kAssistant, "Ahab."});
  EXPECT_TRUE(TurnsText(messages).starts_with(before));
}

TEST(SessionTextTest, PromptsAndWhatIsGeneratedFollowEachOther) {
  SessionText text;
  EXPECT_EQ(text.Get(), "");
  text.Add(SaidIn({.text = "Call me"}, nullptr));
  for (const char* token : {" Ish", "mael", "\xe2\x80"}) text.AddGenerated(token);
  EXPECT_EQ(text.Get(), "Call me Ishmael\xef\xbf\xbd") << "an unfinished character";
  text.AddGenerated("\x94");
  text.Add(SaidIn({.text = " Some years"}, nullptr));
  EXPECT_EQ(text.Get(), "Call me Ishmael\xe2\x80\x94 Some years");
  EXPECT_EQ(text.bytes(), std::ssize(text.Get()));
}

TEST(SessionTextTest, AnAnswerIsATurn) {
  SessionText text;
  text.Add(SaidIn({.messages = {{ChatRole::kUser, "Who?"}}}, nullptr));
  EXPECT_EQ(text.Get(), "user: Who?\n");
  text.AddGenerated("Ah");
  text.AddGenerated("ab.");
  EXPECT_EQ(text.Get(), "user: Who?\nassistant: Ahab.\n");
  text.Add(SaidIn({.messages = {{ChatRole::kUser, "When?"}}}, nullptr));
  EXPECT_EQ(text.Get(), "user: Who?\nassistant: Ahab.\nuser: When?\n");
}

}  // namespace
}  // namespace recollect::engine
