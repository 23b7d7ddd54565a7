#include "http/api/query.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "engine/layer_numbers.h"
#include "model/text/printable.h"

namespace recollect::http {

absl::Status Take(Query& query, const char* name, std::string& out) {
  const auto found = query.find(name);
  if (found == query.end()) return absl::OkStatus();
  out = std::move(found->second);
  query.erase(found);
  return absl::OkStatus();
}

absl::Status Take(Query& query, const char* name, std::optional<int64_t>& out) {
  const auto found = query.find(name);
  if (found == query.end()) return absl::OkStatus();
  int64_t number = 0;
  if (!absl::SimpleAtoi(found->second, &number)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": '", model::EscapeInvisible(found->second), "', expected an integer"));
  }
  out = number;
  query.erase(found);
  return absl::OkStatus();
}

absl::Status TakePattern(Query& query, engine::SessionOptions& session) {
  const auto take = [&query](const char* name, std::optional<int64_t>& everywhere,
                             engine::LayerNumbers& layers) -> absl::Status {
    std::string text;
    RETURN_IF_ERROR(Take(query, name, text));
    ASSIGN_OR_RETURN(engine::PatternNumbers numbers, engine::ParsePatternNumbers(name, text));
    everywhere = numbers.everywhere;
    layers = std::move(numbers.layers);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(take("dilation", session.dilation, session.layer_dilations));
  RETURN_IF_ERROR(take("window", session.window, session.layer_windows));
  RETURN_IF_ERROR(take("initial", session.initial, session.layer_initials));
  RETURN_IF_ERROR(Take(query, "context", session.context));
  std::optional<int64_t> top_k_blocks;
  RETURN_IF_ERROR(Take(query, "top_k_blocks", top_k_blocks));
  session.top_k_blocks = top_k_blocks.value_or(0);
  return absl::OkStatus();
}

absl::Status NamedAsInQuery(const absl::Status& status) {
  for (const char* name : {"dilation", "window", "initial"}) {
    absl::string_view rest = status.message();
    if (absl::ConsumePrefix(&rest, absl::StrCat("layer_", name, "s:")))
      return absl::Status(status.code(), absl::StrCat(name, ":", rest));
  }
  return status;
}

absl::Status RefuseOthers(const Query& query) {
  if (query.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "unrecognized query parameter: '", model::EscapeInvisible(query.begin()->first), "'"));
}

}  // namespace recollect::http
