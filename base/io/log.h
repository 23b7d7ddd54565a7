// Log lines to standard error: time, level, message. A thin wrapper, so that only base/io/log.cc
// knows the logging library.
//
//   LogInfo("opened {} documents in {}", count, path);    (fmt's format strings, checked when
//   compiled)
//
// Never log text of users or prompts. Thread-safe.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "spdlog/fmt/fmt.h"

namespace recollect {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Lines below `level` are dropped; kInfo until set.
void SetLogLevel(LogLevel level);
bool LogEnabled(LogLevel level);

// "debug", "info", "warning", "error" or "off"; otherwise INVALID_ARGUMENT naming the text, level
// unchanged.
absl::Status SetLogLevel(absl::string_view name);

void LogLine(LogLevel level, const std::string& line);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) LogLine(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace recollect
