#include "base/io/log.h"

#include <atomic>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/io/log_fields.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace recollect {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %l %v";
// The message is an object without its opening brace.
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v)";

struct Level {
  absl::string_view name;
  spdlog::level::level_enum of_spdlog;
};
constexpr Level kLevels[] = {{"debug", spdlog::level::debug},  // by LogLevel
                             {"info", spdlog::level::info},
                             {"warning", spdlog::level::warn},
                             {"error", spdlog::level::err},
                             {"off", spdlog::level::off}};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  return kLevels[static_cast<size_t>(level)].of_spdlog;
}

spdlog::logger& Logger() {
  // Never destroyed: threads may log while static objects go away.
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("recollect", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(kTextPattern);
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

std::atomic<LogFormat> format{LogFormat::kText};

// Bytes that are no UTF-8 become U+FFFD.
std::string JsonBody(absl::string_view message, const std::vector<LogField>& fields) {
  nlohmann::ordered_json object = {{"message", std::string(message)}};
  for (const LogField& field : fields)
    std::visit([&](const auto& value) { object[field.name] = value; }, field.value);
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).substr(1);
}

void Write(LogLevel level, const std::string& line) {
  Logger().log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

void SetLogFormat(LogFormat to) {
  format = to;
  Logger().set_pattern(to == LogFormat::kJson ? kJsonPattern : kTextPattern);
}

absl::Status SetLogFormat(absl::string_view name) {
  if (name != "text" && name != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("log format \"", name, "\": expected text or json"));
  }
  SetLogFormat(name == "json" ? LogFormat::kJson : LogFormat::kText);
  return absl::OkStatus();
}

void LogEvent(LogLevel level, const char* message, const std::vector<LogField>& fields,
              const std::string& line) {
  if (!LogEnabled(level)) return;
  Write(level, format == LogFormat::kJson ? JsonBody(message, fields) : line);
}

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

absl::Status SetLogLevel(absl::string_view name) {
  for (const Level& level : kLevels) {
    if (level.name != name) continue;
    Logger().set_level(level.of_spdlog);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("log level \"", name, "\": expected debug, info, warning, error or off"));
}

void LogLine(LogLevel level, const std::string& line) {
  Write(level, format == LogFormat::kJson ? JsonBody(line, {}) : line);
}

}  // namespace recollect
