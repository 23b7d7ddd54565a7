#include "cli/common/retrievals.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/common/json.h"
#include "model/text/printable.h"
#include "service/codec/codec.h"

namespace recollect::cli {
namespace {

constexpr int64_t kExcerptBytes = 160;

// One line of whole characters of it: white space becomes single spaces.
std::string Excerpt(const std::string& text) {
  const std::string line =
      absl::StrJoin(absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty()), " ");
  return model::EscapeInvisible(
      service::ValidUtf8(std::string_view(line).substr(0, kExcerptBytes)));
}

std::string ExcerptOf(client::Client& client, const v1::Hit& hit) {
  if (!hit.text().empty() || hit.document().empty()) return Excerpt(hit.text());
  // A courtesy: a document deleted meanwhile only has no excerpt.
  const int64_t end = std::min(hit.text_end(), hit.text_begin() + kExcerptBytes);
  return Excerpt(client.ReadText(hit.document(), hit.text_begin(), end).value_or(""));
}

}  // namespace

void PrintRetrievals(client::Client& client,
                     const google::protobuf::RepeatedPtrField<v1::Retrieval>& retrievals,
                     std::FILE* out) {
  for (const v1::Retrieval& retrieval : retrievals) {
    absl::FPrintF(out, "position %d, group %d: %d of %d candidates\n", retrieval.position(),
                  retrieval.group(), retrieval.hits_size(), retrieval.candidates());
    if (retrieval.has_nothing()) {
      absl::FPrintF(out, "  weight %.3f  of nothing\n", retrieval.nothing());
    }
    for (const v1::Hit& hit : retrieval.hits()) {
      const std::string text = ExcerptOf(client, hit);
      const std::string name =
          hit.document().empty() ? "(own past)" : model::EscapeInvisible(hit.document());
      absl::FPrintF(out, "  weight %.3f  score %7.3f  %-6s  %s#%d  bytes %d-%d  %s\n", hit.weight(),
                    hit.score(), ToJson(hit)["tier"].get<std::string>(), name, hit.chunk(),
                    hit.text_begin(), hit.text_end(), text);
    }
  }
}

}  // namespace recollect::cli
