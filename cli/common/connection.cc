#include "cli/common/connection.h"

#include <cstdio>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "model/text/printable.h"

namespace recollect::cli {

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const Options& options,
                                                             bool needs_no_document) {
  auto connection = std::make_unique<Connection>();
  client::ClientOptions client_options;
  if (options.timeout_s > 0) client_options.timeout = absl::Seconds(options.timeout_s);
  if (!options.server.empty()) {
    ASSIGN_OR_RETURN(client_options.api_key, ReadApiKey(options));
    ASSIGN_OR_RETURN(client_options.tls_ca, ReadTlsCa(options));
    client_options.on_failover = [](const std::string& what) {
      std::fprintf(stderr, "recollect: %s\n", model::EscapeInvisible(what).c_str());
    };
    ASSIGN_OR_RETURN(connection->client_, client::Client::Connect(options.server, client_options));
    return connection;
  }
  HostOptions host = options.host;
  host.makes_data_dir = needs_no_document;
  ASSIGN_OR_RETURN(connection->host_, CreateHost(host));
  service::ServerOptions server_options;
  server_options.model_name = connection->host_.model_name;
  server_options.backup_dir = options.backup_dir;
  ASSIGN_OR_RETURN(connection->server_,
                   service::Server::Start(server_options, *connection->host_.engine));
  connection->client_ =
      client::Client::OnChannel(connection->server_->InProcessChannel(), client_options);
  return connection;
}

Connection::~Connection() {
  client_.reset();
  if (server_ != nullptr)
    server_->Drain(SteadyNow() + absl::Seconds(10));  // nothing runs: only commits what there is
}

}  // namespace recollect::cli
