#include "cli/common/exit_code.h"

namespace recollect::cli {

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kNotFound:
      return 3;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 4;
    case absl::StatusCode::kUnavailable:
      return 5;
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
      return 6;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
      return 7;
    case absl::StatusCode::kResourceExhausted:
      return 8;
    case absl::StatusCode::kDataLoss:
      return 9;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return 10;
    default:
      return 1;
  }
}

}  // namespace recollect::cli
