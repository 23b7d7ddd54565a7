// Sends one request to a handler of http/, without a socket, over the fake engine. Any body must
// get a success or a refusal: never 5xx, and never silence.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "http/api/runtime.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/fuzzing.h"
#include "tests/support/fake_engine.h"

namespace recollect::fuzz {

struct HttpAnswer {
  http::Answer::Head head;
  std::string body;
  bool whole = false;  // not broken off
};

// The handlers and the fake engine that they use. The fake engine keeps a thread for each
// generation, so it is made anew from time to time.
class HttpHandlers {
 public:
  static HttpHandlers& Get();
  ~HttpHandlers();

  FakeEngine& engine() { return engine_; }

  // Sends a request and returns the answer. `target`: path and query. A body that is streamed is
  // read in pieces of `piece` bytes.
  HttpAnswer Ask(http::Request request, std::string_view target, std::string_view body,
                 size_t piece = http::Body::kPieceBytes);

 private:
  class Woken;

  HttpHandlers();

  // Does what the connection does: gives pieces while there is room, and takes the answer.
  static HttpAnswer Await(http::Answer& answer, Woken& woken, http::Body* stream,
                          std::string_view body, size_t piece);

  int uses_ = 0;
  std::unique_ptr<model::Tokenizer> tokenizer_;
  FakeEngine engine_;
  std::optional<http::Runtime> runtime_;
};

// Aborts unless a body may get this answer: whole, and either a success or an error in OpenAI's
// form with a bounded message.
void CheckAnswer(const HttpAnswer& answer);

// Posts a body to a path that takes JSON, and checks the answer.
void PostJson(const char* path, std::string_view body);

}  // namespace recollect::fuzz
