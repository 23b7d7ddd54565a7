#include "store/rocks/db/status.h"

#include <string>

#include "absl/strings/match.h"

namespace recollect::store::rocks {
namespace {

using Code = rocksdb::Status::Code;

// Errors of several codes say in their second code that memory or space has run out.
bool IsFull(const rocksdb::Status& status) {
  using SubCode = rocksdb::Status::SubCode;
  const SubCode more = status.subcode();
  return more == SubCode::kNoSpace || more == SubCode::kSpaceLimit || more == SubCode::kMemoryLimit;
}

absl::StatusCode FromCode(const rocksdb::Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return absl::StatusCode::kOk;
    case Code::kNotFound:
      return absl::StatusCode::kNotFound;
    case Code::kCorruption:
      return absl::StatusCode::kDataLoss;
    case Code::kNotSupported:
      return absl::StatusCode::kUnimplemented;
    case Code::kTimedOut:
      return absl::StatusCode::kDeadlineExceeded;
    case Code::kIOError:
    case Code::kAborted:
    case Code::kBusy:
    case Code::kTryAgain:
    case Code::kShutdownInProgress:
    case Code::kIncomplete:
      if (IsFull(status)) return absl::StatusCode::kResourceExhausted;
      // A file that the database counts on is gone.
      if (status.IsPathNotFound()) return absl::StatusCode::kDataLoss;
      return absl::StatusCode::kUnavailable;
    case Code::kCompactionTooLarge:
      return absl::StatusCode::kResourceExhausted;
    case Code::kInvalidArgument:  // our call is wrong, whatever the user asked for
    case Code::kMergeInProgress:
    case Code::kExpired:
    case Code::kColumnFamilyDropped:
    case Code::kMaxCode:
      return absl::StatusCode::kInternal;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace

absl::Status FromRocks(const rocksdb::Status& status, absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(FromCode(status), absl::StrCat(what, ": ", status.ToString()));
}

absl::Status FromRocksOpen(const rocksdb::Status& status, absl::string_view directory,
                           absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  // The library has no code for a held lock; these are its two texts (other process, same process).
  if (status.IsIOError() && (absl::StrContains(text, "While lock file") ||
                             absl::StrContains(text, "lock hold by current process"))) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, " ", directory,
                     " is in use by another process: call the server "
                     "that runs on it, or end what does"));
  }
  absl::StatusCode code = FromCode(status);
  if (status.IsNotSupported() || status.IsInvalidArgument() || status.IsNotFound()) {
    code = absl::StatusCode::kDataLoss;
  }
  return absl::Status(code, absl::StrCat(what, " ", directory, ": ", text));
}

}  // namespace recollect::store::rocks
