// What a caller hears whose request cannot be parsed: gRPC's callback services answer UNIMPLEMENTED
// without a word, which says that the method is not there.
#ifndef RECOLLECT_SERVICE_PARSE_ERRORS_H_
#define RECOLLECT_SERVICE_PARSE_ERRORS_H_

#include <memory>
#include <vector>

#include "grpcpp/support/server_interceptor.h"

namespace recollect::service {

// For ServerBuilder: makes that INVALID_ARGUMENT with a reason. Statuses of handlers stay.
std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
ParseErrorInterceptors();

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_PARSE_ERRORS_H_
