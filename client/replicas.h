// Several servers used as one: the addresses of a list of servers or of a DNS name, and channels to
// them. gRPC balances the load, checks health and detects failures; this code only gives it the
// addresses. Internal to the library.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "client/client.h"
#include "grpcpp/support/channel_arguments.h"

namespace recollect::client {

// The settings that every channel has.
grpc::ChannelArguments CommonArguments();
// Returns a channel to `target`, with TLS if `options` trusts a certificate.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target, const ClientOptions& options,
                                           const grpc::ChannelArguments& arguments);

// The address of one replica.
struct Address {
  std::string server;  // as the caller named it, "name:50051"; its certificate has this name
  std::string target;  // of gRPC: "ipv4:10.0.0.7:50051"
  friend bool operator==(const Address&, const Address&) = default;
};

// Splits "name:50051,other:50051" at the commas. INVALID_ARGUMENT names a part that is empty, has
// no port, is an HTTP address, occurs twice, or, in a list, has one of gRPC's own forms ("unix:…").
absl::StatusOr<std::vector<std::string>> SplitServers(const std::string& servers);

// Looks the names up. UNAVAILABLE naming one: none of them can be resolved.
absl::Status CheckNames(const std::string& servers);

// Returns "10.0.0.7:50051" for a target or a call's peer, for messages.
std::string Shown(const std::string& target);

// Thread-safe.
class Replicas {
 public:
  // Looks the names up. Null: no replicas are needed, since it is one server (a name with at most
  // one IPv4 and one IPv6 address, or an unknown name), or one of gRPC's own forms except dns:.
  // INVALID_ARGUMENT as in SplitServers; UNAVAILABLE: no name of the list is known.
  static absl::StatusOr<std::unique_ptr<Replicas>> Find(const std::string& servers,
                                                        const ClientOptions& options);

  const std::string& servers() const { return servers_; }
  // Returns a channel to all replicas: calls go round-robin over the replicas that gRPC finds
  // healthy, and calls that only read are retried if one does not answer.
  std::shared_ptr<grpc::Channel> Balanced() const;
  // Returns a channel to one replica, as a session needs; the same one for the same address.
  std::shared_ptr<grpc::Channel> To(const Address& address);

  // Looks the names up again and returns every address, each time beginning with another one;
  // `last` (a target) stands at the end.
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
