#include <string>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/status.h"
#include "engine/block_texts.h"
#include "http/api/encode.h"
#include "http/api/fields.h"
#include "http/api/handlers.h"
#include "http/api/request_fields.h"
#include "http/net/errors.h"
#include "http/net/json.h"

namespace recollect::http {
namespace {

using nlohmann::json;

struct AskedHits {
  engine::RetrieveRequest request;
  bool with_text = false;
};

absl::StatusOr<AskedHits> DecodeRetrieve(const Request& request, const ServerOptions& options) {
  ASSIGN_OR_RETURN(json object, ParseObject(request.body));
  AskedHits asked;
  engine::RetrieveRequest& result = asked.request;
  RETURN_IF_ERROR(TakeModel(object, options));
  RETURN_IF_ERROR(TakePrompt(object, "query", result.query));
  RETURN_IF_ERROR(TakeSession(object, request.caller, result.session_options));
  RETURN_IF_ERROR(Take(object, "k", "an integer", result.k));
  RETURN_IF_ERROR(Take(object, "with_text", "a boolean", asked.with_text));
  RETURN_IF_ERROR(RefuseRest(object));
  result.account = request.caller.account();
  return asked;
}

json EncodeAll(const std::vector<engine::Retrieval>& retrievals) {
  json groups = json::array();
  for (const engine::Retrieval& retrieval : retrievals) groups.push_back(Encode(retrieval));
  return {{"object", "list"}, {"data", std::move(groups)}};
}

// Blocks on the disk. `text` of a hit whose document is gone, or of the query's own, is null.
absl::StatusOr<json> EncodeWithTexts(engine::Engine& engine,
                                     const std::vector<engine::Retrieval>& retrievals) {
  json answer = EncodeAll(retrievals);
  for (size_t i = 0; i < retrievals.size(); ++i) {
    ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                     engine::ReadBlockTexts(engine, retrievals[i].hits));
    json& hits = answer["data"][i]["hits"];
    for (size_t hit = 0; hit < texts.size(); ++hit)
      hits[hit]["text"] = texts[hit].empty() ? json(nullptr) : json(texts[hit]);
  }
  return answer;
}

}  // namespace

absl::Status Retrieve(Runtime& runtime, const Request& request,
                      const std::shared_ptr<Answer>& answer) {
  ASSIGN_OR_RETURN(AskedHits asked, DecodeRetrieve(request, runtime.options));
  const auto work = std::make_shared<Runtime::Work>(runtime);
  const auto handle = runtime.engine.Retrieve(
      std::move(asked.request), [&runtime, work, answer, with_text = asked.with_text](
                                    absl::StatusOr<std::vector<engine::Retrieval>> found) {
        if (!found.ok()) return SendError(*answer, found.status());
        if (!with_text) return SendJson(*answer, EncodeAll(*found));
        // Reading text waits for the disk, and this is a thread of the engine.
        runtime.Continue([&runtime, work, answer, found = *std::move(found)] {
          const auto texts =
              OrExhausted("an answer", [&] { return EncodeWithTexts(runtime.engine, found); });
          texts.ok() ? SendJson(*answer, *texts) : SendError(*answer, texts.status());
        });
      });
  answer->OnGone([handle] { handle->Cancel(); });
  return absl::OkStatus();
}

}  // namespace recollect::http
