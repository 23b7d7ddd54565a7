#include "http/api/request_fields.h"

#include "base/json.h"
#include "base/status.h"
#include "http/api/fields.h"
#include "model/text/printable.h"

namespace recollect::http {

using nlohmann::json;

absl::StatusOr<json> ParseObject(const std::string& body) {
  if (body.empty()) return absl::InvalidArgumentError("the body is empty, expected a JSON object");
  absl::StatusOr<json> object = ParseJson(body);
  if (!object.ok())
    return absl::InvalidArgumentError(absl::StrCat("the body is ", object.status().message()));
  if (object->is_object()) return object;
  return absl::InvalidArgumentError(
      absl::StrCat("the body is a JSON ", object->type_name(), ", expected an object"));
}

absl::Status TakeModel(json& object, const ServerOptions& options) {
  std::optional<std::string> model;
  RETURN_IF_ERROR(Take(object, "model", "a string", model));
  if (!model.has_value()) return absl::OkStatus();
  if (model->empty()) return absl::InvalidArgumentError("model: empty");
  return CheckModel(*model, options);
}

absl::Status CheckModel(const std::string& name, const ServerOptions& options) {
  if (name == options.model_name) return absl::OkStatus();
  constexpr size_t kMaxShown = 256;
  return absl::NotFoundError(absl::StrCat("model: '",
                                          model::Shortened(model::EscapeInvisible(name), kMaxShown),
                                          "', here is only '", options.model_name, "'"));
}

absl::Status TakePrompt(json& object, const char* name, engine::Prompt& prompt) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::InvalidArgumentError(absl::StrCat(name, ": missing"));
  const bool wrapped = found->is_array() && !found->empty() && !found->front().is_number();
  if (wrapped && found->size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", found->size(), " texts, only 1 is built here"));
  }
  if (wrapped) *found = json(found->front());
  constexpr char kExpected[] = "a string or an array of token ids";
  if (found->is_array()) return Take(object, name, kExpected, prompt.tokens);
  return Take(object, name, kExpected, prompt.text);
}

absl::Status TakePrompts(json& object, const char* name, std::vector<engine::Prompt>& prompts) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::InvalidArgumentError(absl::StrCat(name, ": missing"));
  const json all = std::move(*found);
  object.erase(found);
  const bool several = all.is_array() && !all.empty() && !all.front().is_number();
  if (several && all.size() > kMaxPrompts) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", all.size(), " texts, at most ", kMaxPrompts));
  }
  for (const json& text : several ? all : json::array({all})) {
    json single = {{name, text}};
    RETURN_IF_ERROR(TakePrompt(single, name, prompts.emplace_back()));
  }
  return absl::OkStatus();
}

namespace {

absl::Status TakeMountFilter(json& object, engine::SessionOptions& session) {
  const auto found = object.find("mount_filter");
  if (found == object.end()) return absl::OkStatus();
  const json filter = std::move(*found);
  object.erase(found);
  if (filter.is_null()) return absl::OkStatus();
  if (!filter.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("mount_filter: ", filter.type_name(), ", expected an object"));
  }
  session.mount_filter = filter.dump();
  return absl::OkStatus();
}

absl::Status TakeMountAs(json& object, engine::SessionOptions& session) {
  std::optional<std::string> name;
  RETURN_IF_ERROR(Take(object, "mount_as", "a string", name));
  RETURN_IF_ERROR(Take(object, "text_tokens", "an integer", session.text_tokens));
  if (!name.has_value()) return absl::OkStatus();
  if (*name == "memory") {
    session.mount_as = engine::MountAs::kMemory;
  } else if (*name == "text") {
    session.mount_as = engine::MountAs::kText;
  } else if (*name == "both") {
    session.mount_as = engine::MountAs::kBoth;
  } else {
    constexpr size_t kMaxShown = 64;
    return absl::InvalidArgumentError(
        absl::StrCat("mount_as: '", model::Shortened(model::EscapeInvisible(*name), kMaxShown),
                     "', expected 'memory', 'text' or 'both'"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TakeSession(json& object, const access::Caller& caller,
                         engine::SessionOptions& session) {
  RETURN_IF_ERROR(Take(object, "mounts", "an array of document ids", session.mounts));
  RETURN_IF_ERROR(caller.CheckDocuments(session.mounts));
  RETURN_IF_ERROR(TakeMountFilter(object, session));
  RETURN_IF_ERROR(TakeMountAs(object, session));
  RETURN_IF_ERROR(Take(object, "dilation", "an integer", session.dilation));
  RETURN_IF_ERROR(Take(object, "window", "an integer", session.window));
  RETURN_IF_ERROR(Take(object, "initial", "an integer", session.initial));
  constexpr char kLayers[] = "an array of arrays of integers";
  RETURN_IF_ERROR(Take(object, "layer_dilations", kLayers, session.layer_dilations));
  RETURN_IF_ERROR(Take(object, "layer_windows", kLayers, session.layer_windows));
  RETURN_IF_ERROR(Take(object, "layer_initials", kLayers, session.layer_initials));
  RETURN_IF_ERROR(Take(object, "context", "an integer", session.context));
  RETURN_IF_ERROR(Take(object, "top_k_blocks", "an integer", session.top_k_blocks));
  return Take(object, "random_chunks", "a boolean", session.random_chunks);
}

absl::Status RefuseRest(const json& object) {
  if (object.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("unrecognized request argument: '", object.begin().key(), "'"));
}

}  // namespace recollect::http
