// Error messages for a request that cannot be parsed, or whose method does not exist: in both cases
// gRPC's callback services answer UNIMPLEMENTED without a message.
#pragma once

#include <memory>
#include <vector>

#include "grpcpp/support/server_interceptor.h"

namespace recollect::service {

// Returns interceptors for ServerBuilder: they make the first case INVALID_ARGUMENT with a reason,
// and name the method in the second. Statuses of handlers stay as they are.
std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
ParseErrorInterceptors();

}  // namespace recollect::service
