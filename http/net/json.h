// JSON as it is sent.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "http/net/exchange.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

// On one line. Tokens may end within a character: what is no UTF-8 becomes U+FFFD.
inline std::string Dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

inline void SendJson(Answer& answer, const nlohmann::json& value, int http_status = 200) {
  answer.Send(http_status, "application/json", Dump(value));
}

// For handlers to return: an error is not sent here.
inline absl::Status Reply(Answer& answer, const absl::StatusOr<nlohmann::json>& value) {
  if (value.ok()) SendJson(answer, *value);
  return value.status();
}

}  // namespace recollect::http
