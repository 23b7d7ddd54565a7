#include "client/replicas.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/io/host_port.h"
#include "base/status.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace recollect::client {
namespace {

// A replica that comes back is used again after at most this long; a connection that is not made in
// the other is not waited for.
constexpr int kMaxReconnectBackoffMs = 5'000;
constexpr int kConnectMs = 5'000;

constexpr int kMaxMessageBytes = 4 << 20;  // as the server's
constexpr int kKeepaliveTimeMs = 30'000;   // the server allows one in 10 s
constexpr int kKeepaliveTimeoutMs = 20'000;

// Calls that may be made twice are made again by gRPC itself. What streams is not: how it goes on
// is told in generate.cc and in the protocol of Ingest.
constexpr char kBalanced[] = R"({
  "loadBalancingConfig": [{"round_robin": {}}],
  "healthCheckConfig": {"serviceName": ""},
  "methodConfig": [{
    "name": [
      {"service": "recollect.v1.Documents", "method": "GetDocument"},
      {"service": "recollect.v1.Documents", "method": "ListDocuments"},
      {"service": "recollect.v1.Documents", "method": "ListIngests"},
      {"service": "recollect.v1.Documents", "method": "ReadText"},
      {"service": "recollect.v1.Documents", "method": "Retrieve"},
      {"service": "recollect.v1.Generation", "method": "Score"},
      {"service": "recollect.v1.Admin", "method": "GetModel"},
      {"service": "recollect.v1.Admin", "method": "GetStats"},
      {"service": "recollect.v1.Admin", "method": "ListBackups"}],
    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s",
                    "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]})";
constexpr char kOne[] = R"({
  "loadBalancingConfig": [{"round_robin": {}}],
  "healthCheckConfig": {"serviceName": ""}})";

constexpr absl::string_view kDns = "dns:";

// "dns:///name:1" and "dns:name:1" without what is before the name.
absl::string_view WithoutDns(absl::string_view server) {
  if (absl::ConsumePrefix(&server, kDns)) absl::ConsumePrefix(&server, "///");
  return server;
}

bool IsOwnForm(absl::string_view server) {
  for (const char* scheme : {"unix:", "unix-abstract:", "vsock:", "ipv4:", "ipv6:", "xds:"}) {
    if (absl::StartsWith(server, scheme)) return true;
  }
  return false;
}

absl::StatusOr<HostPort> CheckedHostPort(const std::string& server) {
  const absl::string_view name = WithoutDns(server);
  if (const size_t scheme = name.find("://"); scheme != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("server '", server, "': expected HOST:PORT of gRPC (serve --grpc-listen), ",
                     "without ", name.substr(0, scheme + 3)));
  }
  HostPort split = SplitHostPort(name);
  int port = 0;
  if (split.host.empty() || !absl::SimpleAtoi(split.port, &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("server '", server, "': expected HOST:PORT, the port from 1 to 65535"));
  }
  if (absl::StartsWith(split.host, "["))
    return absl::InvalidArgumentError(absl::StrCat("server '", server, "': a [ without its ]"));
  return split;
}

// Adds those of one name, each once; nothing if the name is not known.
absl::Status AddAddresses(const std::string& server, std::vector<Address>* addresses) {
  ASSIGN_OR_RETURN(const HostPort asked, CheckedHostPort(server));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(asked.host.c_str(), asked.port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("server '", server, "': the name cannot be resolved: ", gai_strerror(error)));
  }
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> host{};
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, host.data(), host.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
      continue;
    const bool v6 = entry->ai_family == AF_INET6;
    Address address{
        std::string(WithoutDns(server)),
        absl::StrCat(v6 ? "ipv6:[" : "ipv4:", host.data(), v6 ? "]:" : ":", asked.port)};
    const auto same = [&](const Address& other) { return other.target == address.target; };
    if (std::none_of(addresses->begin(), addresses->end(), same))
      addresses->push_back(std::move(address));
  }
  freeaddrinfo(found);
  return absl::OkStatus();
}

// Of all names that are known. UNAVAILABLE: none is.
absl::StatusOr<std::vector<Address>> LookUp(const std::vector<std::string>& names) {
  std::vector<Address> addresses;
  absl::Status unknown;
  for (const std::string& name : names) {
    const absl::Status status = AddAddresses(name, &addresses);
    if (absl::IsInvalidArgument(status)) return status;
    unknown.Update(status);
  }
  if (addresses.empty()) return unknown;
  return addresses;
}

// One target for all. gRPC has no form for both kinds of addresses, so beside IPv6 the others are
// written as IPv6, too.
std::string TargetOf(const std::vector<Address>& addresses) {
  const bool v6 = std::any_of(addresses.begin(), addresses.end(), [](const Address& address) {
    return absl::StartsWith(address.target, "ipv6:");
  });
  std::vector<std::string> parts;
  for (const Address& address : addresses) {
    absl::string_view part = address.target;
    if (absl::ConsumePrefix(&part, "ipv6:") || !v6) {
      absl::ConsumePrefix(&part, "ipv4:");
      parts.emplace_back(part);
      continue;
    }
    absl::ConsumePrefix(&part, "ipv4:");
    const size_t colon = part.rfind(':');
    parts.push_back(absl::StrCat("[::ffff:", part.substr(0, colon), "]", part.substr(colon)));
  }
  return absl::StrCat(v6 ? "ipv6:" : "ipv4:", absl::StrJoin(parts, ","));
}

grpc::ChannelArguments Arguments(const char* service_config, const std::string& authority) {
  grpc::ChannelArguments arguments = CommonArguments();
  arguments.SetServiceConfigJSON(service_config);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  // Whose name a certificate must have, where the target is a number.
  if (!authority.empty()) arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, authority);
  return arguments;
}

}  // namespace

grpc::ChannelArguments CommonArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // So that a call without a deadline ends when the server's machine is gone.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Any number of them: by default a connection on which nothing else is sent gets two.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // gRPC would ask the proxy of http_proxy to reach 127.0.0.1, too.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target, const ClientOptions& options,
                                           const grpc::ChannelArguments& arguments) {
  const auto credentials = options.tls_ca.empty() ? grpc::InsecureChannelCredentials()
                                                  : grpc::SslCredentials({options.tls_ca, "", ""});
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

absl::StatusOr<std::vector<std::string>> SplitServers(const std::string& servers) {
  std::vector<std::string> names = absl::StrSplit(servers, ',');
  if (names.size() == 1 && IsOwnForm(servers)) return names;
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (IsOwnForm(*name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("server '", *name, "': expected HOST:PORT in a list of servers"));
    }
    RETURN_IF_ERROR(CheckedHostPort(*name).status());
    if (std::find(names.begin(), name, *name) != name) {
      return absl::InvalidArgumentError(absl::StrCat("server '", *name, "': named twice"));
    }
  }
  return names;
}

absl::Status CheckNames(const std::string& servers) {
  if (IsOwnForm(servers)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, SplitServers(servers));
  return LookUp(names).status();
}

std::string Shown(const std::string& target) {
  absl::string_view shown = target;
  if (!absl::ConsumePrefix(&shown, "ipv4:")) absl::ConsumePrefix(&shown, "ipv6:");
  return absl::StrReplaceAll(shown, {{"%5B", "["}, {"%5D", "]"}});
}

absl::StatusOr<std::unique_ptr<Replicas>> Replicas::Find(const std::string& servers,
                                                         const ClientOptions& options) {
  const bool list = absl::StrContains(servers, ',');
  if (!list && IsOwnForm(servers)) return nullptr;
  ASSIGN_OR_RETURN(std::vector<std::string> names, SplitServers(servers));
  auto found = LookUp(names);
  if (!found.ok() && !list) return nullptr;  // gRPC asks again
  ASSIGN_OR_RETURN(std::vector<Address> addresses, std::move(found));
  // One name with one address of each kind is one machine.
  const auto v6 = std::count_if(addresses.begin(), addresses.end(), [](const Address& address) {
    return absl::StartsWith(address.target, "ipv6:");
  });
  const bool one = v6 <= 1 && std::ssize(addresses) - v6 <= 1;
  if (one && names.size() == 1 && !absl::StartsWith(servers, kDns)) return nullptr;
  return std::unique_ptr<Replicas>(
      new Replicas(servers, std::move(names), std::move(addresses), options));
}

Replicas::Replicas(std::string servers, std::vector<std::string> names,
                   std::vector<Address> addresses, const ClientOptions& options)
    : servers_(std::move(servers)),
      names_(std::move(names)),
      options_(options),
      addresses_(std::move(addresses)),
      next_(std::random_device()()) {}

std::shared_ptr<grpc::Channel> Replicas::Balanced() const {
  // One name is looked up by gRPC itself, which does so again when addresses fail.
  if (names_.size() == 1) {
    const std::string name(WithoutDns(names_[0]));
    return MakeChannel(absl::StrCat("dns:///", name), options_, Arguments(kBalanced, ""));
  }
  MutexLock lock(mutex_);
  return MakeChannel(TargetOf(addresses_), options_, Arguments(kBalanced, addresses_[0].server));
}

std::shared_ptr<grpc::Channel> Replicas::To(const Address& address) {
  MutexLock lock(mutex_);
  std::shared_ptr<grpc::Channel>& channel = channels_[address.target];
  if (channel == nullptr)
    channel = MakeChannel(address.target, options_, Arguments(kOne, address.server));
  return channel;
}

std::vector<Address> Replicas::Rotated(const std::string& last) {
  auto found = LookUp(names_);  // not under the lock: it may ask a name server
  MutexLock lock(mutex_);
  if (found.ok()) addresses_ = *std::move(found);
  std::vector<Address> rotated = addresses_;
  std::rotate(rotated.begin(),
              rotated.begin() + static_cast<std::ptrdiff_t>(next_++ % rotated.size()),
              rotated.end());
  std::stable_partition(rotated.begin(), rotated.end(),
                        [&](const Address& address) { return address.target != last; });
  return rotated;
}

}  // namespace recollect::client
