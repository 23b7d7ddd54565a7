// gRPC channels with the settings that every client has. Internal to the library.
#ifndef RECOLLECT_CLIENT_CHANNEL_H_
#define RECOLLECT_CLIENT_CHANNEL_H_

#include <memory>
#include <string>

#include "client/client.h"
#include "grpcpp/support/channel_arguments.h"

namespace recollect::client {

grpc::ChannelArguments CommonArguments();

// To `target`, with TLS if `options` trusts a certificate.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target, const ClientOptions& options,
                                           const grpc::ChannelArguments& arguments);

}  // namespace recollect::client

#endif  // RECOLLECT_CLIENT_CHANNEL_H_
