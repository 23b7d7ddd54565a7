#include "http/retrieve.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "http/encode.h"
#include "http/errors.h"
#include "http/fields.h"
#include "http/json.h"
#include "http/request_fields.h"

namespace recollect::http {
namespace {

using nlohmann::json;

absl::StatusOr<engine::RetrieveRequest> Decode(const Request& request,
                                               const ServerOptions& options) {
  ASSIGN_OR_RETURN(json object, ParseObject(request.body));
  engine::RetrieveRequest result;
  RETURN_IF_ERROR(TakeModel(object, options, ModelField::kOptional));
  RETURN_IF_ERROR(TakePrompt(object, "query", result.query));
  RETURN_IF_ERROR(TakeSession(object, request.caller, result.session_options));
  RETURN_IF_ERROR(Take(object, "k", "an integer", result.k));
  RETURN_IF_ERROR(RefuseRest(object));
  result.account = request.caller.account();
  return result;
}

}  // namespace

void Retrieve(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer) {
  absl::StatusOr<engine::RetrieveRequest> decoded = Decode(request, runtime.options);
  if (!decoded.ok()) return SendError(*answer, decoded.status());
  const auto handle = runtime.engine.Retrieve(
      *std::move(decoded),
      [answer](const absl::StatusOr<std::vector<engine::Retrieval>>& retrievals) {
        if (!retrievals.ok()) return SendError(*answer, retrievals.status());
        json groups = json::array();
        for (const engine::Retrieval& retrieval : *retrievals) groups.push_back(Encode(retrieval));
        SendJson(*answer, {{"object", "list"}, {"data", groups}});
      });
  answer->OnGone([handle] { handle->Cancel(); });
}

}  // namespace recollect::http
