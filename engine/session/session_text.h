// The text that is kept of what was read and generated: prompts as they were sent, without passages
// and control tokens, and what was generated after them. A conversation is kept as its turns
// (base/turns_text.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/session/text_stream.h"
#include "engine/types.h"

namespace recollect::model {
class Tokenizer;
}

namespace recollect::engine {

// The text of a prompt.
struct Said {
  std::string text = {};     // of token ids perhaps no whole characters
  bool is_question = false;  // turns, whose last one the answer follows
};
// `tokenizer` may be null, if the prompt is not of token ids or its text is not needed. REQUIRES:
// all token ids are in the vocabulary (step/prepare.h).
Said SaidIn(const Prompt& prompt, const model::Tokenizer* tokenizer);

// Not thread-safe.
class SessionText {
 public:
  void Add(const Said& said);
  void AddGenerated(std::string_view bytes);  // of one token
  // Returns all of it as UTF-8; an unfinished character is U+FFFD.
  std::string Get() const;
  int64_t bytes() const { return static_cast<int64_t>(text_.size()); }

 private:
  void Push(std::string_view bytes) { text_ += stream_.Push(bytes); }

  std::string text_;
  TextStream stream_{{}};
  bool asked_ = false, answering_ = false;  // of a conversation
};

}  // namespace recollect::engine
