#include "base/log.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace recollect {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

spdlog::logger& Logger() {
  // Never destroyed: threads may log while static objects go away.
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("recollect", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

}  // namespace

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

absl::Status SetLogLevel(absl::string_view name) {
  struct Entry {
    absl::string_view name;
    LogLevel level;
  };
  static constexpr Entry kLevels[] = {{"debug", LogLevel::kDebug},
                                      {"info", LogLevel::kInfo},
                                      {"warning", LogLevel::kWarning},
                                      {"error", LogLevel::kError},
                                      {"off", LogLevel::kOff}};
  for (const Entry& entry : kLevels) {
    if (entry.name != name) continue;
    SetLogLevel(entry.level);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("log level \"", name, "\": expected debug, info, warning, error or off"));
}

void LogLine(LogLevel level, const std::string& line) {
  Logger().log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace recollect
