// The options of an HTTP server.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "access/caller.h"
#include "access/certificate.h"
#include "base/metrics.h"
#include "http/net/cors.h"
#include "http/net/exchange.h"

namespace recollect::model {
class Model;
class Tokenizer;
}  // namespace recollect::model

namespace recollect::http {

inline constexpr int kMaxConnections = 2048;

struct ServerOptions {
  std::string listen;  // HOST:PORT; port 0: a free one
  std::string model_name;
  const model::Tokenizer* tokenizer = nullptr;  // for echo, logprobs, /tokenize; may be null
  bool chat = false;                            // the model has a chat template; for /v1/models
  int max_connections = kMaxConnections;        // one more is closed at once
  // The time limit for a request's head, for each piece of its body, and for each write.
  absl::Duration timeout = absl::Seconds(60);
  // The longest silences in streamed completions: a proxy closes connections that are silent for a
  // minute.
  Answer::Pauses event_pauses = {.head = absl::Seconds(1), .comment = absl::Seconds(15)};
  // Further content of GET /metrics and GET /v1/stats: the program's version; the model, which may
  // be null; metrics of other parts of the process, such as its gRPC server.
  std::string version = {};
  const model::Model* model = nullptr;
  std::function<MetricFamilies()> more_metrics = nullptr;
  // Returns the caller of a request, or refuses it, by its head, before its body is read
  // (http/net/authorize.h). Null: anybody may send any request.
  std::function<absl::StatusOr<access::Caller>(const Request&)> authorize = nullptr;
  Cors cors = {};  // which pages of other sites may read answers
  // The certificate for TLS (HTTPS); must outlive the server. Null: no TLS.
  const access::Certificate* certificate = nullptr;
};

}  // namespace recollect::http
