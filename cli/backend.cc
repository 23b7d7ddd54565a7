#include "cli/backend.h"

#include <utility>

#include "base/status.h"

namespace recollect::cli {

absl::StatusOr<std::unique_ptr<Backend>> Backend::Open(const Options& options) {
  auto backend = std::make_unique<Backend>();
  client::ClientOptions client_options;
  if (options.timeout_s > 0) client_options.timeout = absl::Seconds(options.timeout_s);
  if (!options.server.empty()) {
    ASSIGN_OR_RETURN(backend->client_, client::Client::Connect(options.server, client_options));
    return backend;
  }
  ASSIGN_OR_RETURN(backend->host_, CreateHost(options.host));
  service::ServerOptions server_options;
  server_options.model_name = backend->host_.model_name;
  ASSIGN_OR_RETURN(backend->server_,
                   service::Server::Start(server_options, *backend->host_.engine));
  backend->client_ =
      client::Client::OnChannel(backend->server_->InProcessChannel(), client_options);
  return backend;
}

Backend::~Backend() {
  client_.reset();
  if (server_ != nullptr)
    server_->Drain(absl::Now() + absl::Seconds(10));  // nothing runs: only commits what there is
}

}  // namespace recollect::cli
