// absl::Status to grpc::Status. The codes have the same numbers and meaning; messages are cut to
// kMaxErrorBytes.
#ifndef RECOLLECT_SERVICE_STATUS_MAP_H_
#define RECOLLECT_SERVICE_STATUS_MAP_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"

namespace recollect::service {

grpc::Status ToGrpc(const absl::Status& status);

// `message` without paths of this machine, which are nobody's business elsewhere: each word that
// has a slash in it and does not stand in quotes, as ids do, is "a file".
std::string WithoutPaths(absl::string_view message);

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_STATUS_MAP_H_
