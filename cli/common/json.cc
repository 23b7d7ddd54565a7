#include "cli/common/json.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "base/json.h"
#include "google/protobuf/descriptor.h"
#include "model/text/printable.h"

namespace recollect::cli {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string ShortName(const EnumDescriptor& type, int number) {
  const auto* value = type.FindValueByNumber(number);
  if (value == nullptr || number == 0) return "unknown";  // of a newer server
  // All names begin as that of 0 does: FINISH_REASON_UNSPECIFIED.
  constexpr std::string_view kZero = "UNSPECIFIED";
  const size_t prefix = type.FindValueByNumber(0)->name().size() - kZero.size();
  return absl::AsciiStrToLower(value->name().substr(prefix));
}

// The field's value, or its value number `i` where it is repeated.
Json ValueOf(const Message& message, const FieldDescriptor* field, int i) {
  const Reflection& reflection = *message.GetReflection();
  const auto get = [&](auto single, auto repeated) {
    return field->is_repeated() ? (reflection.*repeated)(message, field, i)
                                : (reflection.*single)(message, field);
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_STRING:
      return get(&Reflection::GetString, &Reflection::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_ENUM:
      return ShortName(*field->enum_type(),
                       get(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                         : reflection.GetMessage(message, field));
  }
  return {};
}

Json JsonOf(const Message& message, const std::vector<const FieldDescriptor*>& fields) {
  const Reflection& reflection = *message.GetReflection();
  Json json = Json::object();
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) {
      Json& values = json[field->name()] = Json::array();
      for (int i = 0; i < reflection.FieldSize(message, field); ++i)
        values.push_back(ValueOf(message, field, i));
    } else if (!field->has_presence() || reflection.HasField(message, field)) {
      json[field->name()] = ValueOf(message, field, 0);
    }
  }
  return json;
}

std::vector<const FieldDescriptor*> FieldsOf(const Message& message) {
  std::vector<const FieldDescriptor*> fields(message.GetDescriptor()->field_count());
  for (size_t i = 0; i < fields.size(); ++i)
    fields[i] = message.GetDescriptor()->field(static_cast<int>(i));
  return fields;
}

}  // namespace

Json ToJson(const Message& message) { return JsonOf(message, FieldsOf(message)); }

Json ToJson(const v1::Document& document) {
  if (document.has_damage()) return {{"id", document.id()}, {"damage", document.damage()}};
  Json json = ToJson(static_cast<const Message&>(document));
  if (document.has_metadata()) {
    if (const auto metadata = ParseJson(document.metadata()); metadata.ok())
      json["metadata"] = Json(*metadata);
  }
  return json;
}

Json ToJson(const v1::ModelInfo& info) {
  Json json = ToJson(static_cast<const Message&>(info));
  if (info.layer_patterns().empty()) json.erase("layer_patterns");
  for (int i = 0; i < info.layer_patterns_size(); ++i)
    json["layer_patterns"][i] = ToJsonArray(info.layer_patterns(i).heads());
  return json;
}

Json ToJson(const v1::Stats& stats) {
  std::vector<const FieldDescriptor*> fields = FieldsOf(stats);
  std::sort(fields.begin(), fields.end(), [](const auto* a, const auto* b) {
    return std::pair(a->cpp_type(), a->name()) < std::pair(b->cpp_type(), b->name());
  });
  Json json = JsonOf(stats, fields);
  for (int i = 0; i < stats.rpcs_size(); ++i) {
    std::map<std::string, int64_t> codes;
    for (const v1::CodeCount& entry : stats.rpcs(i).codes()) codes[entry.code()] = entry.count();
    json["rpcs"][i]["codes"] = codes;
  }
  return json;
}

Json ToJson(const client::GenerateResult& result) {
  Json done = ToJson(result.done);
  Json json = {{"text", result.text},
               {"tokens", result.tokens},
               {"finish_reason", done["reason"]},
               {"usage", done["usage"]}};
  if (!result.retrievals.empty()) json["retrievals"] = ToJsonArray(result.retrievals);
  if (!result.logprobs.empty()) json["logprobs"] = ToJsonArray(result.logprobs);
  if (result.done.has_saved()) json["saved"] = done["saved"];
  return json;
}

Json ToJson(const absl::Status& status) {
  return {{"error",
           {{"code", absl::StatusCodeToString(status.code())},
            {"message", std::string(status.message())}}}};
}

void PrintJson(const Json& json) {
  absl::PrintF("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void PrintTable(const Json& json) {
  for (const auto& [name, value] : json.items()) {
    absl::PrintF(
        "%-24s %s\n", name,
        value.is_string() ? model::EscapeInvisible(value.get<std::string>()) : value.dump());
  }
}

}  // namespace recollect::cli
