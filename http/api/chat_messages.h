// Reads the messages of a chat, as OpenAI's API has them.
#ifndef RECOLLECT_HTTP_API_CHAT_MESSAGES_H_
#define RECOLLECT_HTTP_API_CHAT_MESSAGES_H_

#include <vector>

#include "absl/status/status.h"
#include "base/chat_message.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

// Takes `messages`. INVALID_ARGUMENT names the message and its field, such as "messages[1].role": a
// role or a kind of content that is not built, no message, a message without content. In which
// order roles may come is the model's to say.
absl::Status TakeMessages(nlohmann::json& object, std::vector<ChatMessage>& messages);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_CHAT_MESSAGES_H_
