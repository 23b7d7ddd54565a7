// The parts of a model's files that concern text: the tokenizer, the token before a text, and the
// template of a conversation. Private to model/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/model_files.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace recollect::model {

struct ModelText {
  std::unique_ptr<Tokenizer> tokenizer;  // null where the files have none
  std::optional<int32_t> begin_token;    // before every text, where the files ask for it
  std::optional<ChatTemplate> chat;
  absl::Status no_chat;  // why there is none
};

// Reads tokenizer.model; or in the layout of Hugging Face tokenizer.model or tokenizer.json, with
// tokenizer_config.json, added_tokens.json and chat_template.jinja beside it; or a GGUF file's
// metadata. INVALID_ARGUMENT, naming the file: a tokenizer that cannot
// be read, or one that does not fit the config. An unknown template of a conversation is no error:
// `no_chat` names it.
absl::StatusOr<ModelText> ReadModelText(const ModelFiles& files, const ModelConfig& config);

}  // namespace recollect::model
