// What a caller hears whose request cannot be parsed, or is of no method: in both cases gRPC's
// callback services answer UNIMPLEMENTED without a word.
#ifndef RECOLLECT_SERVICE_PARSE_ERRORS_H_
#define RECOLLECT_SERVICE_PARSE_ERRORS_H_

#include <memory>
#include <vector>

#include "grpcpp/support/server_interceptor.h"

namespace recollect::service {

// For ServerBuilder: makes the one INVALID_ARGUMENT with a reason, and has the other name the
// method. Statuses of handlers stay.
std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
ParseErrorInterceptors();

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_PARSE_ERRORS_H_
