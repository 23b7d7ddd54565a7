#include "cli/common/metadata_flags.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "base/status.h"
#include "cli/common/options.h"
#include "model/text/printable.h"

namespace recollect::cli {
namespace {

constexpr char kConditionForms[] = "KEY=VALUE, or != > >= < <= in place of =, or a filter as JSON";

// Longer ones first: ">=" begins with ">".
constexpr std::pair<absl::string_view, absl::string_view> kOperators[] = {
    {"!=", "ne"}, {">=", "gte"}, {"<=", "lte"}, {"==", "eq"}, {"=", "eq"}, {">", "gt"}, {"<", "lt"},
};

Json MetadataValue(absl::string_view text) {
  const auto parsed = ParseJson(text);
  const bool is_value =
      parsed.ok() && (parsed->is_number() || parsed->is_boolean() || parsed->is_string());
  return is_value ? Json(*parsed) : Json(std::string(text));
}

absl::Status BadValue(const std::string& flag, const std::string& value,
                      absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", model::EscapeInvisible(value), "', expected ", expected));
}

absl::StatusOr<Json> ObjectIn(const std::string& flag, const std::string& value) {
  const auto object = ParseJson(value);
  if (!object.ok()) return Annotate(object.status(), flag);
  return Json(*object);
}

absl::StatusOr<Json> Condition(const std::string& flag, const std::string& condition) {
  RETURN_IF_ERROR(CheckUtf8(flag, condition));
  if (absl::StartsWith(condition, "{")) return ObjectIn(flag, condition);
  const size_t at = condition.find_first_of("!<>=");
  if (at == 0 || at == std::string::npos) return BadValue(flag, condition, kConditionForms);
  absl::string_view rest = absl::string_view(condition).substr(at);
  for (const auto& [sign, type] : kOperators) {
    if (!absl::StartsWith(rest, sign)) continue;
    return Json{{"type", std::string(type)},
                {"key", condition.substr(0, at)},
                {"value", MetadataValue(rest.substr(sign.size()))}};
  }
  return BadValue(flag, condition, kConditionForms);
}

}  // namespace

CLI::Option* AddRepeated(CLI::App& verb, const std::string& flag, std::vector<std::string>& values,
                         const std::string& help) {
  return verb.add_option(flag, values, help)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

absl::StatusOr<Json> MetadataFromFlags(const std::string& flag,
                                       const std::vector<std::string>& values) {
  Json object = Json::object();
  for (const std::string& value : values) {
    RETURN_IF_ERROR(CheckUtf8(flag, value));
    if (absl::StartsWith(value, "{")) {
      ASSIGN_OR_RETURN(const Json part, ObjectIn(flag, value));
      object.update(part);
      continue;
    }
    const size_t at = value.find('=');
    if (at == 0 || at == std::string::npos) {
      return BadValue(flag, value, "KEY=VALUE or a JSON object");
    }
    object[value.substr(0, at)] = MetadataValue(absl::string_view(value).substr(at + 1));
  }
  return object;
}

absl::StatusOr<std::string> FilterFromFlags(const std::string& flag,
                                            const std::vector<std::string>& conditions) {
  if (conditions.empty()) return "";
  Json filters = Json::array();
  for (const std::string& condition : conditions) {
    ASSIGN_OR_RETURN(Json filter, Condition(flag, condition));
    filters.push_back(std::move(filter));
  }
  if (filters.size() == 1) return filters.front().dump();
  return Json{{"type", "and"}, {"filters", std::move(filters)}}.dump();
}

}  // namespace recollect::cli
