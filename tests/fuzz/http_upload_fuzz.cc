// PUT /v1/documents/ID. The input: a byte that says how large the pieces are and whether progress
// is asked for; a line with the query; one with Content-Range, which may be empty; and the body.
// What is published is the body; afterwards nothing is left.
#include "tests/fuzz/http_fuzzing.h"

namespace {

using namespace recollect;  // NOLINT

std::string_view TakeLine(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view rest = fuzz::AsText(data, size).substr(1);
  const std::string target = absl::StrCat("/v1/documents/x?", std::string(TakeLine(rest)));
  const std::string range(TakeLine(rest));
  http::Request request;
  request.method = "PUT";
  if (!range.empty()) request.headers["content-range"] = range;
  if (data[0] & 1) request.headers["accept"] = "application/x-ndjson";
  fuzz::HttpHandlers& handlers = fuzz::HttpHandlers::Get();
  const fuzz::HttpAnswer answer =
      handlers.Ask(std::move(request), target, rest, 1 + (data[0] >> 1));
  fuzz::CheckAnswer(answer);
  FakeEngine& engine = handlers.engine();
  // An answer of lines may come just before the ingest lets go.
  engine.Await([](const FakeEngine::Seen& seen) { return seen.ingests == 0; });
  const auto document = engine.GetDocument("x");
  if (document.ok()) {
    RECOLLECT_CHECK(engine.ReadText("x", 0, document->bytes).value() == rest);
    RECOLLECT_CHECK(answer.head.status < 300);
  }
  const absl::Status deleted = engine.DeleteDocument("x");
  RECOLLECT_CHECK(deleted.ok() || absl::IsNotFound(deleted));
  return 0;
}
