#include "store/metadata.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status.h"

namespace recollect::store {
namespace {

using nlohmann::json;

absl::StatusOr<json> ParseObject(absl::string_view text) {
  absl::StatusOr<json> object = ParseJson(text, EqualKeys::kRefused);
  if (!object.ok()) return Annotate(object.status(), "metadata");
  if (object->is_object()) return object;
  return absl::InvalidArgumentError(
      absl::StrCat("metadata: ", object->type_name(), ", expected an object"));
}

absl::Status CheckKey(absl::string_view key) {
  if (!key.empty() && std::ssize(key) <= kMaxMetadataKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("metadata: key ", ShownInMessage(key), " has ",
                                                 key.size(), " bytes, expected 1 to ",
                                                 kMaxMetadataKeyBytes));
}

absl::Status CheckValue(absl::string_view key, const json& value) {
  if (value.is_string() || value.is_number() || value.is_boolean()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("metadata: key ", ShownInMessage(key), ": ",
                                                 value.type_name(),
                                                 ", expected a string, a number, true or false"));
}

absl::StatusOr<std::string> TextOf(const json& object) {
  if (object.empty()) return "";
  for (const auto& [key, value] : object.items()) {
    RETURN_IF_ERROR(CheckKey(key));
    RETURN_IF_ERROR(CheckValue(key, value));
  }
  if (std::ssize(object) > kMaxMetadataKeys) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata: ", object.size(), " keys, at most ", kMaxMetadataKeys));
  }
  std::string text = object.dump();
  if (std::ssize(text) <= kMaxMetadataBytes) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("metadata: ", text.size(), " bytes of JSON, at most ", kMaxMetadataBytes));
}

}  // namespace

std::string ShownInMessage(absl::string_view text) {
  const json shown = std::string(text.substr(0, kMaxMetadataKeyBytes));
  return shown.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<std::string> ReadMetadata(absl::string_view object) {
  ASSIGN_OR_RETURN(const json parsed, ParseObject(object));
  return TextOf(parsed);
}

absl::StatusOr<std::string> PatchMetadata(absl::string_view metadata, absl::string_view patch) {
  ASSIGN_OR_RETURN(json object, ParseObject(metadata.empty() ? "{}" : metadata));
  ASSIGN_OR_RETURN(json changes, ParseObject(patch));
  for (auto& [key, value] : changes.items()) {
    RETURN_IF_ERROR(CheckKey(key));
    if (value.is_null()) {
      object.erase(key);
    } else {
      object[key] = std::move(value);
    }
  }
  return TextOf(object);
}

}  // namespace recollect::store
