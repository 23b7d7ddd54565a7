// The HTTP server: OpenAI-style completions from an engine that it does not own (docs/http.md).
//
//   ASSIGN_OR_RETURN(auto server, Server::Start({.listen = "127.0.0.1:8080"}, *engine));
//   … server->address() …
//   server->Refuse();              // while the engine shuts down
//   server->Drain(deadline);
#ifndef RECOLLECT_HTTP_SERVER_H_
#define RECOLLECT_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "access/caller.h"
#include "access/certificate.h"
#include "base/metrics.h"
#include "engine/engine.h"
#include "http/cors.h"
#include "http/exchange.h"

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
  // (http/authorize.h). Null: anybody may send any request.
  std::function<absl::StatusOr<access::Caller>(const Request&)> authorize = nullptr;
  Cors cors = {};  // which pages of other sites may read answers
  // The certificate for TLS (HTTPS); must outlive the server. Null: no TLS.
  const access::Certificate* certificate = nullptr;
};

// Thread-safe. The engine must outlive it; requests that it has begun in the engine end before the
// destructor returns, or are cancelled by it.
class Server {
 public:
  // FAILED_PRECONDITION: the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       engine::Engine& engine);
  virtual ~Server() = default;  // like Drain with a deadline in the past

  virtual const std::string& address() const = 0;  // with the real port
  // Answers /readyz and new requests with 503 from now on.
  virtual void Refuse() = 0;
  // Refuses, stops listening, waits until running requests are answered or `deadline` (SteadyNow()
  // time) has passed, and closes. Blocks. May be repeated.
  virtual void Drain(absl::Time deadline) = 0;
};

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_SERVER_H_
