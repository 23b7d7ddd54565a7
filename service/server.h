// The gRPC server: recollect.v1, grpc.health.v1 and reflection on one address, over an engine that
// it does not own.
//
//   ASSIGN_OR_RETURN(auto server, Server::Start({.listen = "127.0.0.1:0"}, *engine));
//   … server->address() …
//   server->Drain(SteadyNow() + absl::Seconds(30));   // also shuts the engine down
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "access/certificate.h"
#include "access/guard.h"
#include "base/metrics.h"
#include "engine/engine.h"

namespace grpc {
class Channel;
}

namespace recollect::service {

inline constexpr int kMaxConnections = 256;
inline constexpr int kConnectionDescriptors = 3;  // file descriptors of each

struct ServerOptions {
  std::string listen;  // "127.0.0.1:50051", "[::1]:0"; port 0: a free one; empty: in process only
  std::string model_name;       // for Admin/GetModel
  std::string backup_dir = {};  // for Admin/CreateBackup; empty: no backups
  int max_connections = kMaxConnections;
  // An ingest that receives nothing for so long ends with ABORTED; what was committed stays.
  absl::Duration ingest_silence = absl::Minutes(5);
  // The time limit for the TLS handshake, if there is one, and the beginning of HTTP/2; then the
  // connection is closed.
  absl::Duration handshake_timeout = absl::Seconds(20);
  // The API keys, of which callers need one, except for health and reflection; must outlive the
  // server. Null: no keys are needed.
  const access::Guard* guard = nullptr;
  // The certificate for TLS; must outlive the server. Null: no TLS.
  const access::Certificate* certificate = nullptr;
};

// Thread-safe. The engine must outlive it. When the engine loses a device, health becomes
// NOT_SERVING permanently; calls that do not need the device continue.
class Server {
 public:
  // FAILED_PRECONDITION when the address cannot be listened on, for example because another process
  // does.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       engine::Engine& engine);
  virtual ~Server() = default;  // like Drain with a deadline in the past

  // The address listened on, with the real port; empty if in process only.
  virtual const std::string& address() const = 0;

  // A channel inside this process, without sockets, used by the embedded command line.
  virtual std::shared_ptr<grpc::Channel> InProcessChannel() = 0;

  // Returns metrics of calls and connections, to be exported. May be called until the destructor
  // runs.
  virtual MetricFamilies metrics() const = 0;

  // Sets health to NOT_SERVING, refuses new calls (UNAVAILABLE), lets running calls finish until
  // `deadline` (SteadyNow() time), then cancels them, shuts the engine down and closes. Blocks. May
  // be repeated.
  virtual void Drain(absl::Time deadline) = 0;
};

}  // namespace recollect::service
