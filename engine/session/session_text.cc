#include "engine/session/session_text.h"

#include "absl/strings/str_cat.h"
#include "base/turns_text.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {

Said SaidIn(const Prompt& prompt, const model::Tokenizer* tokenizer) {
  if (!prompt.messages.empty()) return {TurnsText(prompt.messages), /*is_question=*/true};
  if (prompt.tokens.empty()) return {prompt.text};
  return {tokenizer == nullptr ? "" : tokenizer->Decode(prompt.tokens)};
}

void SessionText::Add(const Said& said) {
  if (answering_) Push("\n");
  answering_ = false;
  Push(said.text);
  asked_ = said.is_question;
}

void SessionText::AddGenerated(std::string_view bytes) {
  if (asked_) Push(kAnswerOpening);
  answering_ = answering_ || asked_;
  asked_ = false;
  Push(bytes);
}

std::string SessionText::Get() const {
  return absl::StrCat(text_, TextStream(stream_).Flush(), answering_ ? "\n" : "");
}

}  // namespace recollect::engine
