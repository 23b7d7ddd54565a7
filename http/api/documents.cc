#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "http/api/encode.h"
#include "http/api/handlers.h"
#include "http/api/query.h"
#include "http/net/entity_tag.h"
#include "http/net/errors.h"
#include "http/net/json.h"
#include "http/net/ranges.h"

namespace recollect::http {
namespace {

using nlohmann::json;

constexpr int64_t kDefaultPageSize = 100;
constexpr int64_t kMaxPageSize = 1000;
constexpr size_t kMaxPageBytes = 1 << 20;      // patterns by head are long
constexpr int64_t kTextPartBytes = 256 << 10;  // read and written at once

json OrNull(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json EncodeIngest(const store::IngestProgress& progress) {
  return {{"id", progress.id},
          {"object", "ingest"},
          {"tokens", progress.tokens},
          {"chunks", progress.chunks},
          {"bytes", progress.bytes},
          {progress.from_tokens ? "committed_tokens" : "committed_bytes", progress.input_offset},
          {"fingerprint", progress.fingerprint},
          {"refresh", progress.replaces != OwnerId{}},
          {"pattern", OrNull(progress.pattern)}};
}

absl::StatusOr<json> List(engine::Engine& engine, const access::Caller& caller, Query query) {
  std::string after;
  std::optional<int64_t> limit;
  RETURN_IF_ERROR(Take(query, "after", after));
  RETURN_IF_ERROR(Take(query, "limit", limit));
  engine::DocumentSelection selection{.beginning = caller.prefix()};
  RETURN_IF_ERROR(Take(query, "filter", selection.filter));
  RETURN_IF_ERROR(RefuseOthers(query));
  const int64_t most = limit.value_or(kDefaultPageSize);
  RETURN_IF_ERROR(CheckRange<int64_t>("limit", most, 1, kMaxPageSize));
  // In this order, so that one which is published meanwhile is in one of the lists at least.
  ASSIGN_OR_RETURN(std::vector<store::IngestProgress> ingests, engine.ListIngests());
  ASSIGN_OR_RETURN(auto documents,
                   engine.ListDocuments(caller.ListFrom(after), most + 1, selection));
  if (!selection.filter.empty()) ingests.clear();  // they have no metadata yet
  std::erase_if(documents, [&](const auto& document) { return !caller.MaySee(document.id); });
  std::erase_if(ingests, [&](const auto& ingest) {
    if (ingest.id <= after || !caller.MaySee(ingest.id)) return true;
    return ingest.replaces == OwnerId{} &&
           std::any_of(documents.begin(), documents.end(),
                       [&](const auto& document) { return document.id == ingest.id; });
  });
  std::sort(ingests.begin(), ingests.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  json page = {{"object", "list"},
               {"data", json::array()},
               {"ingests", json::array()},
               {"has_more", false},
               {"last_id", nullptr}};
  auto document = documents.begin();
  auto ingest = ingests.begin();
  int64_t count = 0;
  size_t bytes = 0;
  while (document != documents.end() || ingest != ingests.end()) {
    if (count++ == most || bytes > kMaxPageBytes) {
      page["has_more"] = true;
      break;
    }
    const bool published =
        ingest == ingests.end() || (document != documents.end() && document->id <= ingest->id);
    page["last_id"] = published ? document->id : ingest->id;
    const json entry = published ? EncodeDocument(*document++) : EncodeIngest(*ingest++);
    bytes += Dump(entry).size();
    page[published ? "data" : "ingests"].push_back(entry);
  }
  return page;
}

absl::Status ChangeMetadata(Runtime& runtime, const Request& request,
                            const std::shared_ptr<Answer>& answer, engine::MetadataChange change) {
  RETURN_IF_ERROR(RefuseOthers(request.query));
  ASSIGN_OR_RETURN(const store::DocumentInfo document,
                   runtime.engine.SetMetadata(request.parameter, request.body, change));
  return Reply(*answer, EncodeDocument(document));
}

absl::StatusOr<json> Get(engine::Engine& engine, const std::string& id) {
  // In this order, so that one which is published meanwhile is found.
  ASSIGN_OR_RETURN(const std::vector<store::IngestProgress> ingests, engine.ListIngests());
  const absl::StatusOr<store::DocumentInfo> document = engine.GetDocument(id);
  if (document.ok()) return EncodeDocument(*document);
  if (!absl::IsNotFound(document.status())) return document.status();
  for (const store::IngestProgress& ingest : ingests)
    if (ingest.id == id) return EncodeIngest(ingest);
  return document.status();
}

// The bytes that the header Range asks for of those that the query asks for, which are the body. A
// copy that If-Range names has to be of the same text. Nothing: the whole body.
absl::StatusOr<std::optional<ByteRange>> RangeOf(const Request& request, const std::string& tag,
                                                 int64_t size) {
  const auto range = HeaderOf(request, "range");
  if (request.method != "GET" || !range.has_value()) return std::nullopt;
  if (HeaderOf(request, "if-range").value_or(tag) != tag) return std::nullopt;
  return ParseRange(*range, size);
}

}  // namespace

absl::Status ListDocuments(Runtime& runtime, const Request& request,
                           const std::shared_ptr<Answer>& answer) {
  return Reply(*answer, List(runtime.engine, request.caller, request.query));
}

absl::Status GetDocument(Runtime& runtime, const Request& request,
                         const std::shared_ptr<Answer>& answer) {
  RETURN_IF_ERROR(RefuseOthers(request.query));
  return Reply(*answer, Get(runtime.engine, request.parameter));
}

absl::Status GetText(Runtime& runtime, const Request& request,
                     const std::shared_ptr<Answer>& answer) {
  Query query = request.query;
  std::optional<int64_t> begin, end;
  RETURN_IF_ERROR(Take(query, "begin", begin));
  RETURN_IF_ERROR(Take(query, "end", end));
  RETURN_IF_ERROR(RefuseOthers(query));
  ASSIGN_OR_RETURN(store::DocumentInfo document, runtime.engine.GetDocument(request.parameter));
  const int64_t from = begin.value_or(0), to = end.value_or(document.bytes);
  if (from < 0 || to < from || to > document.bytes) {
    return absl::OutOfRangeError(
        absl::StrCat("begin, end: ", from, ", ", to, " of a text of ", document.bytes, " bytes"));
  }
  const int64_t size = to - from;
  const std::string tag = absl::StrCat("\"", document.sha256, "\"");
  Answer::Head head = {200, "text/plain; charset=utf-8",
                       absl::StrCat("Accept-Ranges: bytes\r\nETag: ", tag, "\r\n")};
  if (NamesTag(HeaderOf(request, "if-none-match").value_or(""), tag, TagComparison::kWeak)) {
    answer->Send(304, head.content_type, "", head.headers);
    return absl::OkStatus();
  }
  const absl::StatusOr<std::optional<ByteRange>> range = RangeOf(request, tag, size);
  if (!range.ok()) {
    SendError(*answer, range.status(), absl::StrCat("Content-Range: bytes */", size, "\r\n"));
    return absl::OkStatus();
  }
  const ByteRange part = range->value_or(ByteRange{0, size});
  if (range->has_value()) {
    head.status = 206;
    absl::StrAppend(&head.headers, "Content-Range: bytes ", part.begin, "-", part.end - 1, "/",
                    size, "\r\n");
  }
  head.bytes = part.end - part.begin;
  const auto next = [&engine = runtime.engine, document, at = from + part.begin,
                     last = from + part.end]() mutable -> absl::StatusOr<std::string> {
    if (at == last) return "";
    ASSIGN_OR_RETURN(std::string bytes,
                     engine.ReadText(document.id, at, std::min(last, at + kTextPartBytes)));
    ASSIGN_OR_RETURN(const store::DocumentInfo now, engine.GetDocument(document.id));
    if (now.owner != document.owner)
      return absl::NotFoundError(absl::StrCat("document \"", document.id, "\" has been replaced"));
    at += std::ssize(bytes);
    return bytes;
  };
  runtime.SendParts(answer, std::move(head), next);
  return absl::OkStatus();
}

absl::Status DeleteDocument(Runtime& runtime, const Request& request,
                            const std::shared_ptr<Answer>& answer) {
  RETURN_IF_ERROR(RefuseOthers(request.query));
  RETURN_IF_ERROR(runtime.engine.DeleteDocument(request.parameter));
  return Reply(*answer, json{{"id", request.parameter}, {"object", "document"}, {"deleted", true}});
}

absl::Status PutMetadata(Runtime& runtime, const Request& request,
                         const std::shared_ptr<Answer>& answer) {
  return ChangeMetadata(runtime, request, answer, engine::MetadataChange::kReplace);
}

absl::Status PatchMetadata(Runtime& runtime, const Request& request,
                           const std::shared_ptr<Answer>& answer) {
  return ChangeMetadata(runtime, request, answer, engine::MetadataChange::kPatch);
}

absl::Status RefreshDocument(Runtime& runtime, const Request& request,
                             const std::shared_ptr<Answer>& answer) {
  RETURN_IF_ERROR(RefuseOthers(request.query));
  const auto handle = runtime.engine.RefreshDocument(
      request.parameter, {.peer = request.peer, .account = request.caller.account()},
      /*progress=*/nullptr, [answer](const absl::StatusOr<store::DocumentInfo>& info) {
        info.ok() ? SendJson(*answer, EncodeDocument(*info)) : SendError(*answer, info.status());
      });
  if (handle != nullptr) answer->OnGone([handle] { handle->Cancel(); });
  return absl::OkStatus();
}

}  // namespace recollect::http
