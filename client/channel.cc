#include "client/channel.h"

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace recollect::client {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;  // as the server's
constexpr int kKeepaliveTimeMs = 30'000;   // the server allows one in 10 s
constexpr int kKeepaliveTimeoutMs = 20'000;

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

}  // namespace recollect::client
