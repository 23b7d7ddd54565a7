// absl::Status to grpc::Status. The codes have the same numbers and meaning by definition of both;
// messages are cut to kMaxErrorBytes.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace recollect::service {

grpc::Status ToGrpc(const absl::Status& status);

}  // namespace recollect::service
