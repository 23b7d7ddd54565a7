// The input is the body of PUT /v1/documents/ID/import, read in pieces of as many bytes as its
// first one says. What is wrong leaves nothing. The file itself: document_file_fuzz.cc.
#include "tests/fuzz/http_fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recollect;  // NOLINT
  if (size == 0) return 0;
  http::Request request;
  request.method = "PUT";
  fuzz::HttpHandlers& handlers = fuzz::HttpHandlers::Get();
  const fuzz::HttpAnswer answer =
      handlers.Ask(std::move(request), "/v1/documents/x/import", fuzz::AsText(data, size).substr(1),
                   size_t{1} + data[0]);
  fuzz::CheckAnswer(answer);
  FakeEngine& engine = handlers.engine();
  RECOLLECT_CHECK(engine.GetDocument("x").ok() == (answer.head.status == 201));
  engine.DeleteDocument("x").IgnoreError();
  return 0;
}
