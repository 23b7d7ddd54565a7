// Sends one request to a handler of http/, without a socket, over the fake engine. Any body must
// get a success or a refusal: never 5xx, and never silence.
#ifndef RECOLLECT_TESTS_FUZZ_HTTP_FUZZING_H_
#define RECOLLECT_TESTS_FUZZ_HTTP_FUZZING_H_

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "http/api/routes.h"
#include "http/api/runtime.h"
#include "http/net/path.h"
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
  static HttpHandlers& Get() {
    constexpr int kUses = 256;
    static std::unique_ptr<HttpHandlers>& handlers = *new std::unique_ptr<HttpHandlers>();
    if (handlers == nullptr || ++handlers->uses_ == kUses) {
      handlers = nullptr;
      handlers.reset(new HttpHandlers());
    }
    return *handlers;
  }
  ~HttpHandlers() { runtime_->Stop(); }

  FakeEngine& engine() { return engine_; }

  // Sends a request and returns the answer. `target`: path and query. A body that is streamed is
  // read in pieces of `piece` bytes.
  HttpAnswer Ask(http::Request request, std::string_view target, std::string_view body,
                 size_t piece = http::Body::kPieceBytes) {
    request.path = std::string(target.substr(0, target.find('?')));
    const http::Match match = http::FindRoute(request);
    RECOLLECT_CHECK(match.route != nullptr);
    const auto query = http::DecodeQuery(
        std::string(target.substr(std::min(target.size(), request.path.size() + 1))));
    if (!query.ok()) return {{400, "application/json"}, R"({"error": {"message": "query"}})", true};
    request.query = *query;
    auto woken = std::make_shared<Woken>();
    const auto answer = std::make_shared<http::Answer>([woken] { woken->Wake(); });
    if (match.route->streamed) {
      request.stream =
          std::make_shared<http::Body>([woken] { woken->Wake(); }, runtime_->traffic.bodies_held);
    } else {
      request.body = std::string(body);
    }
    match.route->handle(*runtime_, request, answer);
    HttpAnswer whole = Await(*answer, *woken, request.stream.get(), body, piece);
    answer->Detach();
    if (request.stream != nullptr) request.stream->Fail(absl::CancelledError("answered"));
    return whole;
  }

 private:
  class Woken {
   public:
    void Wake() {
      std::lock_guard lock(mutex_);
      woken_ = true;
      changed_.notify_all();
    }
    void Wait() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return woken_; });
      woken_ = false;
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool woken_ = false;
  };

  HttpHandlers() {
    auto tokenizer = model::Tokenizer::Load(std::string(RECOLLECT_SOURCE_DIR) +
                                            "/tests/support/tiny_tokenizer.model");
    RECOLLECT_CHECK(tokenizer.ok());
    tokenizer_ = *std::move(tokenizer);
    runtime_.emplace(
        http::ServerOptions{.listen = "", .model_name = "m", .tokenizer = tokenizer_.get()},
        engine_);
    engine_.AddDocument("d", "a document of some length");
  }

  // Does what the connection does: gives pieces while there is room, and takes the answer.
  static HttpAnswer Await(http::Answer& answer, Woken& woken, http::Body* stream,
                          std::string_view body, size_t piece) {
    HttpAnswer whole;
    bool ended = false;
    while (true) {
      while (stream != nullptr && !ended && stream->has_room()) {
        ended = body.empty();
        stream->Give(std::string(body.substr(0, piece)));
        body.remove_prefix(std::min(body.size(), piece));
      }
      http::Answer::News news = answer.Take();
      if (news.head.has_value()) whole.head = *std::move(news.head);
      whole.body += news.bytes;
      whole.whole = news.ended;
      if (news.ended || news.gone) return whole;
      woken.Wait();
    }
  }

  int uses_ = 0;
  std::unique_ptr<model::Tokenizer> tokenizer_;
  FakeEngine engine_;
  std::optional<http::Runtime> runtime_;
};

// Aborts unless a body may get this answer: whole, and either a success or an error in OpenAI's
// form with a bounded message.
inline void CheckAnswer(const HttpAnswer& answer) {
  constexpr size_t kMaxMessageBytes = 16 << 10;
  bool good = answer.whole && answer.head.status >= 200 && answer.head.status < 500;
  if (good && answer.head.content_type == "application/json") {
    const auto value = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    good = value.is_object();
    if (good && answer.head.status >= 400) {
      const auto message = value.value("error", nlohmann::json::object()).value("message", "");
      good = !message.empty() && message.size() <= kMaxMessageBytes;
    }
  }
  if (good) return;
  std::fprintf(stderr, "answered %d, %s: %.1000s\n", answer.head.status,
               answer.whole ? "whole" : "broken off", answer.body.c_str());
  std::abort();
}

// Posts a body to a path that takes JSON, and checks the answer.
inline void PostJson(const char* path, std::string_view body) {
  HttpHandlers& handlers = HttpHandlers::Get();
  http::Request request;
  request.method = "POST";
  CheckAnswer(handlers.Ask(std::move(request), path, body));
}

}  // namespace recollect::fuzz

#endif  // RECOLLECT_TESTS_FUZZ_HTTP_FUZZING_H_
