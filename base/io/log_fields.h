// Log lines as JSON, and events whose parts are fields there: base/io/log.h has the rest.
//
//   LogEvent(LogLevel::kInfo, "call", {{"method", "Documents/Ingest"}, {"code", "OK"}}, line);
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/io/log.h"

namespace recollect {

enum class LogFormat {
  kText,  // time, level, message
  kJson,  // an object on each line: "time", "level", "message", and the fields of events
};
void SetLogFormat(LogFormat format);  // kText until set
// "text" or "json"; otherwise INVALID_ARGUMENT naming the text, format unchanged.
absl::Status SetLogFormat(absl::string_view name);

struct LogField {
  const char* name;
  std::variant<std::string, int64_t, double> value;
};

// As text `line`, as JSON `message` and the fields. Thread-safe.
void LogEvent(LogLevel level, const char* message, const std::vector<LogField>& fields,
              const std::string& line);

}  // namespace recollect
