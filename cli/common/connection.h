// The connection that verbs use: a client of a remote server, or of one inside this process.
// Embedded use runs the same service over an in-process channel, so limits, errors and results are
// those of a server.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cli/common/host.h"
#include "cli/common/options.h"
#include "client/client.h"
#include "service/server.h"

namespace recollect::cli {

// Destroyed in the order client, server, engine.
class Connection {
 public:
  // UNAVAILABLE: no server; otherwise errors of CreateHost. Unless `needs_no_document`, a data
  // directory that is named must exist.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const Options& options,
                                                          bool needs_no_document = false);
  ~Connection();

  client::Client& client() { return *client_; }

 private:
  Host host_;                                // embedded only
  std::unique_ptr<service::Server> server_;  // embedded only
  std::unique_ptr<client::Client> client_;
};

}  // namespace recollect::cli
