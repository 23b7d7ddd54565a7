#include "http/api/routes.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "http/api/request_fields.h"
#include "http/net/json.h"
#include "http/net/path.h"
#include "http/page/page.h"
#include "model/text/printable.h"
#include "nlohmann/json.hpp"

namespace recollect::http {
namespace {

using nlohmann::json;

absl::Status Live(Runtime&, const Request&, const std::shared_ptr<Answer>& answer) {
  answer->Send(200, "application/json", R"({"status":"ok"})");
  return absl::OkStatus();
}

absl::Status Ready(Runtime& runtime, const Request& request,
                   const std::shared_ptr<Answer>& answer) {
  RETURN_IF_ERROR(runtime.Ready());
  return Live(runtime, request, answer);
}

absl::Status Version(Runtime& runtime, const Request&, const std::shared_ptr<Answer>& answer) {
  return Reply(*answer, json{{"version", runtime.options.version}});
}

json EncodeModel(const Runtime& runtime) {
  return {{"id", runtime.options.model_name},
          {"object", "model"},
          {"created", 0},
          {"owned_by", "recollect"},
          {"chat", runtime.options.chat}};
}

absl::Status Models(Runtime& runtime, const Request&, const std::shared_ptr<Answer>& answer) {
  return Reply(*answer, json{{"object", "list"}, {"data", json::array({EncodeModel(runtime)})}});
}

absl::Status OneModel(Runtime& runtime, const Request& request,
                      const std::shared_ptr<Answer>& answer) {
  RETURN_IF_ERROR(CheckModel(request.parameter, runtime.options));
  return Reply(*answer, EncodeModel(runtime));
}

absl::Status Page(Runtime&, const Request& request, const std::shared_ptr<Answer>& answer) {
  const EmbeddedFile* const file = FindPageFile(request.path);
  if (file == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("there is no '", model::EscapeInvisible(request.path), "'"));
  }
  SendPageFile(*file, *answer);
  return absl::OkStatus();
}

constexpr Route kRoutes[] = {
    {"GET", "/", Page, /*quick=*/true},
    {"GET", "/page/{}", Page, /*quick=*/true},
    {"GET", "/livez", Live, /*quick=*/true},
    {"GET", "/health", Ready, /*quick=*/true},
    {"GET", "/readyz", Ready, /*quick=*/true},
    {"GET", "/openapi.json", OpenApi, /*quick=*/true},
    {"GET", "/version", Version, /*quick=*/true},
    {"GET", "/v1/models", Models, /*quick=*/true},
    {"GET", "/v1/models/{}", OneModel, /*quick=*/true},
    {"POST", "/v1/completions", Complete},
    {"POST", "/v1/chat/completions", Chat},
    {"GET", "/v1/documents", ListDocuments},
    {"GET", "/v1/documents/{}", GetDocument},
    {"PUT", "/v1/documents/{}", PutDocument, /*quick=*/false, /*streamed=*/true},
    {"DELETE", "/v1/documents/{}", DeleteDocument},
    {"POST", "/v1/documents/{}/append", AppendToDocument, /*quick=*/false, /*streamed=*/true},
    {"GET", "/v1/documents/{}/text", GetText},
    {"PUT", "/v1/documents/{}/metadata", PutMetadata},
    {"PATCH", "/v1/documents/{}/metadata", PatchMetadata},
    {"PUT", "/v1/documents/{}/refresh", RefreshDocument},
    {"GET", "/v1/documents/{}/export", ExportDocument},
    {"PUT", "/v1/documents/{}/import", ImportDocument, /*quick=*/false, /*streamed=*/true},
    {"POST", "/v1/retrieve", Retrieve},
    {"POST", "/v1/score", Score},
    {"POST", "/v1/embeddings", Embed},
    {"POST", "/tokenize", Tokenize},
    {"POST", "/detokenize", Detokenize},
    {"GET", "/tokenizer_info", TokenizerInfo, /*quick=*/true},
    {"GET", "/metrics", Metrics},
    {"GET", "/v1/stats", Stats},
};

// What stands for {} in `pattern`, empty without one; nothing where the path is another.
std::optional<std::string> Fit(absl::string_view pattern, absl::string_view path) {
  const std::vector<absl::string_view> expected = absl::StrSplit(pattern, '/');
  const std::vector<absl::string_view> segments = absl::StrSplit(path, '/');
  if (expected.size() != segments.size()) return std::nullopt;
  std::string parameter;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == "{}" && !segments[i].empty()) {
      parameter = std::string(segments[i]);
    } else if (expected[i] != segments[i]) {
      return std::nullopt;
    }
  }
  return parameter;
}

// Whoever writes an id as it is, or leaves "/v1" out of a client's base URL, meets this first.
std::string HintFor(const std::string& path) {
  if (absl::StartsWith(path, "/v1/documents/"))
    return "; a slash within the id of a document is %2F in a path";
  const std::string under = absl::StrCat("/v1", path);
  const bool there = std::any_of(std::begin(kRoutes), std::end(kRoutes), [&](const Route& route) {
    return Fit(route.path, under).has_value();
  });
  return there ? absl::StrCat("; did you mean '", model::EscapeInvisible(under), "'?") : "";
}

}  // namespace

std::span<const Route> Routes() { return kRoutes; }

Endpoint Runtime::Find(Request& request) {
  std::string allow;
  for (const Route& route : kRoutes) {
    const std::optional<std::string> parameter = Fit(route.path, request.path);
    if (!parameter.has_value()) continue;
    const bool get = route.method == absl::string_view("GET");
    if (request.method != route.method && !(get && request.method == "HEAD")) {
      absl::StrAppend(&allow, allow.empty() ? "" : ", ", route.method, get ? ", HEAD" : "");
      continue;
    }
    absl::StatusOr<std::string> decoded = DecodePercent(*parameter);
    if (!decoded.ok()) return {.http_status = 400, .refused = decoded.status()};
    request.parameter = *std::move(decoded);
    return {.handle =
                [this, &route](const Request& found, const std::shared_ptr<Answer>& answer) {
                  return route.handle(*this, found, answer);
                },
            .method = route.method,
            .path = route.path,
            .quick = route.quick,
            .streamed = route.streamed};
  }
  const std::string path = model::EscapeInvisible(request.path);
  if (!allow.empty()) {
    return {.http_status = 405,
            .refused = absl::UnimplementedError(absl::StrCat(
                "'", path, "' has no method ", request.method, ", only ", allow,
                path == "/v1/documents" ? "; a text is PUT to '/v1/documents/ID'" : "")),
            .allow = allow};
  }
  return {.http_status = 404,
          .refused =
              absl::NotFoundError(absl::StrCat("there is no '", path, "'", HintFor(request.path)))};
}

}  // namespace recollect::http
