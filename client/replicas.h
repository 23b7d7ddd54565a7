// Several servers as one: the addresses of a list of servers or of a DNS name, and channels to
// them. gRPC balances, checks health and finds failures; what is here only tells it of whom.
// Internal to the library.
#ifndef RECOLLECT_CLIENT_REPLICAS_H_
#define RECOLLECT_CLIENT_REPLICAS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/client.h"

namespace recollect::client {

// Where one replica is reached.
struct Address {
  std::string server;  // as the caller named it, "name:50051": whom its certificate is for
  std::string target;  // of gRPC: "ipv4:10.0.0.7:50051"
  friend bool operator==(const Address&, const Address&) = default;
};

// The parts of "name:50051,other:50051". INVALID_ARGUMENT naming the part: it is empty, without a
// port, an address of HTTP, there twice, or, beside others, one of gRPC's own forms ("unix:…").
absl::StatusOr<std::vector<std::string>> SplitServers(const std::string& servers);

// For people: "10.0.0.7:50051" of a target or of a call's peer.
std::string Shown(const std::string& target);

// Thread-safe.
class Replicas {
 public:
  // Looks the names up. Null: it is one server (a name with one address of each kind), or one of
  // gRPC's own forms but dns:. Nothing of this is needed then. INVALID_ARGUMENT as SplitServers;
  // UNAVAILABLE: no name of the list is known.
  static absl::StatusOr<std::unique_ptr<Replicas>> Find(const std::string& servers,
                                                        const ClientOptions& options);

  const std::string& servers() const { return servers_; }
  // Over all replicas: calls go round those that gRPC finds healthy, and calls that only read are
  // made again where one does not answer.
  std::shared_ptr<grpc::Channel> Balanced() const;
  // To one alone, which a session needs. The same for the same address.
  std::shared_ptr<grpc::Channel> To(const Address& address);

  // Every address, as the names are known now, each time beginning with another one; `last` (a
  // target) stands at the end.
  std::vector<Address> Rotated(const std::string& last);

  void Report(const std::string& what) const {
    if (options_.on_failover != nullptr) options_.on_failover(what);
  }
  absl::Duration patience() const { return options_.failover_timeout; }

 private:
  Replicas(std::string servers, std::vector<std::string> names, std::vector<Address> addresses,
           const ClientOptions& options);

  const std::string servers_;
  const std::vector<std::string> names_;
  const ClientOptions options_;
  mutable Mutex mutex_;
  std::vector<Address> addresses_ ABSL_GUARDED_BY(mutex_);  // as last found
  uint32_t next_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::client

#endif  // RECOLLECT_CLIENT_REPLICAS_H_
