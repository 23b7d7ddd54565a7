#include "http/openapi.h"

namespace recollect::http {
namespace {

using nlohmann::ordered_json;

ordered_json Merged() {
  ordered_json all = ordered_json::object();
  for (const EmbeddedFile& file : ApiFiles())
    all.update(ordered_json::parse(file.content), /*merge_objects=*/true);
  return all;
}

}  // namespace

const ordered_json& ApiDescription() {
  static const ordered_json all = Merged();
  return all;
}

void OpenApi(Runtime& runtime, const Request&, const std::shared_ptr<Answer>& answer) {
  ordered_json description = ApiDescription();
  description["info"]["version"] = runtime.options.version;
  answer->Send(200, "application/json", description.dump());
}

}  // namespace recollect::http
