// The HTTP server: OpenAI-style completions from an engine that it does not own (docs/http.md).
//
//   ASSIGN_OR_RETURN(auto server, Server::Start({.listen = "127.0.0.1:8080"}, *engine));
//   … server->address() …
//   server->Refuse();              // while the engine shuts down
//   server->Drain(deadline);
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "http/options.h"

namespace recollect::http {

class Listener;
class Runtime;

// Thread-safe. The engine must outlive it; requests that it has begun in the engine end before the
// destructor returns, or are cancelled by it.
class Server {
 public:
  // FAILED_PRECONDITION: the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       engine::Engine& engine);
  ~Server();  // like Drain with a deadline in the past

  const std::string& address() const;  // with the real port
  // Answers /readyz and new requests with 503 from now on.
  void Refuse();
  // Refuses, stops listening, waits until running requests are answered or `deadline` (SteadyNow()
  // time) has passed, and closes. Blocks. May be repeated.
  void Drain(absl::Time deadline);

 private:
  Server(std::unique_ptr<Runtime> runtime, std::unique_ptr<Listener> listener);

  const std::unique_ptr<Runtime> runtime_;
  const std::unique_ptr<Listener> listener_;  // first to go: its connections use the runtime
};

}  // namespace recollect::http
