#include "http/api/saved_turn.h"

#include <optional>

#include "base/status.h"
#include "http/api/fields.h"
#include "http/net/errors.h"

namespace recollect::http {

using nlohmann::json;

absl::Status TakeSaveAs(json& object, const access::Caller& caller,
                        engine::GenerateRequest& generate) {
  std::optional<std::string> id;
  bool replace = false;
  RETURN_IF_ERROR(Take(object, "save_as", "a string", id));
  RETURN_IF_ERROR(Take(object, "replace", "a boolean", replace));
  if (!id.has_value()) {
    return replace ? absl::InvalidArgumentError("replace: only together with save_as")
                   : absl::OkStatus();
  }
  RETURN_IF_ERROR(caller.CheckRight(access::Right::kFull, "save_as"));
  RETURN_IF_ERROR(caller.CheckDocument(*id));
  generate.save_as = {.id = *std::move(id), .replace = replace};
  return absl::OkStatus();
}

json EncodeSaved(const std::string& id, const absl::StatusOr<store::DocumentInfo>& document) {
  json saved = {{"id", id}};
  if (document.ok()) {
    saved.update({{"tokens", document->tokens},
                  {"chunks", document->chunks},
                  {"bytes", document->bytes},
                  {"sha256", document->sha256}});
  } else {
    saved.update(json::parse(ErrorJson(document.status())));
  }
  return saved;
}

}  // namespace recollect::http
