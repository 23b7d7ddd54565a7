#include "tests/fuzz/http_fuzzing.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "http/net/errors.h"
#include "http/net/path.h"
#include "nlohmann/json.hpp"

namespace recollect::fuzz {

class HttpHandlers::Woken {
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

HttpHandlers& HttpHandlers::Get() {
  constexpr int kUses = 256;
  static std::unique_ptr<HttpHandlers>& handlers = *new std::unique_ptr<HttpHandlers>();
  if (handlers == nullptr || ++handlers->uses_ == kUses) {
    handlers = nullptr;
    handlers.reset(new HttpHandlers());
  }
  return *handlers;
}

HttpHandlers::HttpHandlers() {
  auto tokenizer = model::Tokenizer::Load(std::string(RECOLLECT_SOURCE_DIR) +
                                          "/tests/support/tiny_tokenizer.model");
  RECOLLECT_CHECK(tokenizer.ok());
  tokenizer_ = *std::move(tokenizer);
  runtime_.emplace(
      http::ServerOptions{.listen = "", .model_name = "m", .tokenizer = tokenizer_.get()}, engine_);
  engine_.AddDocument("d", "a document of some length");
}

HttpHandlers::~HttpHandlers() { runtime_->Stop(); }

HttpAnswer HttpHandlers::Ask(http::Request request, std::string_view target, std::string_view body,
                             size_t piece) {
  request.path = std::string(target.substr(0, target.find('?')));
  const http::Endpoint endpoint = runtime_->Find(request);
  RECOLLECT_CHECK(endpoint.handle != nullptr);
  const auto query = http::DecodeQuery(
      std::string(target.substr(std::min(target.size(), request.path.size() + 1))));
  if (!query.ok()) return {{400, "application/json"}, R"({"error": {"message": "query"}})", true};
  request.query = *query;
  auto woken = std::make_shared<Woken>();
  const auto answer = std::make_shared<http::Answer>([woken] { woken->Wake(); });
  if (endpoint.streamed) {
    request.stream =
        std::make_shared<http::Body>([woken] { woken->Wake(); }, runtime_->traffic.bodies_held);
  } else {
    request.body = std::string(body);
  }
  const absl::Status handled = endpoint.handle(request, answer);
  if (!handled.ok()) http::SendError(*answer, handled);
  HttpAnswer whole = Await(*answer, *woken, request.stream.get(), body, piece);
  answer->Detach();
  if (request.stream != nullptr) request.stream->Fail(absl::CancelledError("answered"));
  return whole;
}

// Does what the connection does: gives pieces while there is room, and takes the answer.
HttpAnswer HttpHandlers::Await(http::Answer& answer, Woken& woken, http::Body* stream,
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

void CheckAnswer(const HttpAnswer& answer) {
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

void PostJson(const char* path, std::string_view body) {
  HttpHandlers& handlers = HttpHandlers::Get();
  http::Request request;
  request.method = "POST";
  CheckAnswer(handlers.Ask(std::move(request), path, body));
}

}  // namespace recollect::fuzz
