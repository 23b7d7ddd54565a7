#include "http/api/openapi.h"

#include <cstdint>
#include <string>

#include "engine/stats.h"
#include "http/api/handlers.h"

namespace recollect::http {
namespace {

using nlohmann::ordered_json;

const char* TypeName(const std::string&) { return "string"; }
const char* TypeName(bool) { return "boolean"; }
const char* TypeName(int64_t) { return "integer"; }
const char* TypeName(double) { return "number"; }

// Adds the engine's statistics to the schema of GET /v1/stats.
void DescribeStatistics(ordered_json& schema) {
  engine::VisitFields({}, [&](const engine::Statistic& statistic, const auto& value) {
    schema["required"].push_back(statistic.name);
    schema["properties"][statistic.name] = {{"type", TypeName(value)},
                                            {"description", statistic.help}};
  });
}

ordered_json Merged() {
  ordered_json all = ordered_json::object();
  for (const EmbeddedFile& file : ApiFiles())
    all.update(ordered_json::parse(file.content), /*merge_objects=*/true);
  DescribeStatistics(all["components"]["schemas"]["Stats"]);
  return all;
}

}  // namespace

const ordered_json& ApiDescription() {
  static const ordered_json all = Merged();
  return all;
}

absl::Status OpenApi(Runtime& runtime, const Request&, const std::shared_ptr<Answer>& answer) {
  ordered_json description = ApiDescription();
  description["info"]["version"] = runtime.options.version;
  answer->Send(200, "application/json", description.dump());
  return absl::OkStatus();
}

}  // namespace recollect::http
