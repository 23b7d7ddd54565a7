// Names what a listener serves. The network's side of the HTTP server knows routes by this
// interface alone, and nothing of the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "http/net/exchange.h"
#include "http/net/request_metrics.h"

namespace recollect::http {

// Where a request goes, or why it goes nowhere.
struct Endpoint {
  // Answers now or later, also from other threads; an error that it returns is still to be sent.
  // Null: there is none.
  std::function<absl::Status(const Request& request, const std::shared_ptr<Answer>& answer)>
      handle = nullptr;
  const char* method = nullptr;  // with the path, its name in logs and metrics
  const char* path = nullptr;
  bool quick = false;     // runs on the thread of the network, also while draining
  bool streamed = false;  // takes Request::stream in place of Request::body
  int http_status = 200;  // without a handler: of the refusal
  absl::Status refused = absl::OkStatus();
  std::string allow = {};  // of a 405: the methods that the path has
};

// Holds what connections count. Thread-safe.
struct Traffic {
  std::atomic<bool> refusing{false};    // new requests are answered with 503
  std::atomic<int64_t> connections{0};  // open now
  std::atomic<int64_t> next_request{1};
  std::atomic<size_t> bodies_held{0};  // bytes, read ahead (http/net/body.h)
  RequestMetrics requests;
};

// Thread-safe.
class Site {
 public:
  virtual ~Site() = default;

  // The endpoint of a request whose method and path are set. Sets Request::parameter.
  virtual Endpoint Find(Request& request) = 0;
  // Runs `work`, which begins a request, on a thread that may wait for the disk.
  // RESOURCE_EXHAUSTED, and `work` is dropped, if too many requests wait for a thread.
  virtual absl::Status Start(std::function<void()> work) = 0;

  Traffic traffic;
};

}  // namespace recollect::http
