// The input is a body of POST /tokenize and of /detokenize. What is a body of the first becomes
// tokens that are a body of the second, and the text again.
#include "tests/fuzz/http_fuzzing.h"

namespace {

using namespace recollect;  // NOLINT
using nlohmann::json;

fuzz::HttpAnswer Ask(const char* path, std::string_view body) {
  http::Request request;
  request.method = "POST";
  fuzz::HttpAnswer answer = fuzz::HttpHandlers::Get().Ask(std::move(request), path, body);
  fuzz::CheckAnswer(answer);
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body = fuzz::AsText(data, size);
  Ask("/detokenize", body);
  const fuzz::HttpAnswer tokens = Ask("/tokenize", body);
  if (tokens.head.status != 200) return 0;
  const json again = {{"tokens", json::parse(tokens.body)["tokens"]}};
  const fuzz::HttpAnswer text = Ask("/detokenize", again.dump());
  RECOLLECT_CHECK(text.head.status == 200);
  RECOLLECT_CHECK(json::parse(text.body)["prompt"] == json::parse(body)["prompt"]);
  return 0;
}
