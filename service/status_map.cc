#include "service/status_map.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "model/text/tokenizer.h"
#include "service/limits.h"

namespace recollect::service {
namespace {

grpc::StatusCode Code(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return grpc::StatusCode::OK;
    case absl::StatusCode::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case absl::StatusCode::kUnknown:
      return grpc::StatusCode::UNKNOWN;
    case absl::StatusCode::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case absl::StatusCode::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case absl::StatusCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case absl::StatusCode::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case absl::StatusCode::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case absl::StatusCode::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case absl::StatusCode::kFailedPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case absl::StatusCode::kAborted:
      return grpc::StatusCode::ABORTED;
    case absl::StatusCode::kOutOfRange:
      return grpc::StatusCode::OUT_OF_RANGE;
    case absl::StatusCode::kUnimplemented:
      return grpc::StatusCode::UNIMPLEMENTED;
    case absl::StatusCode::kInternal:
      return grpc::StatusCode::INTERNAL;
    case absl::StatusCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case absl::StatusCode::kDataLoss:
      return grpc::StatusCode::DATA_LOSS;
    case absl::StatusCode::kUnauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    default:
      return grpc::StatusCode::UNKNOWN;  // absl asks users for a default: it may add codes
  }
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message(status.message().substr(0, kMaxErrorBytes));
  // The cut may have split a character, and peers expect UTF-8.
  if (const int64_t bad = model::FindInvalidUtf8(message, false); bad >= 0) message.resize(bad);
  return grpc::Status(Code(status.code()), message);
}

std::string WithoutPaths(absl::string_view message) {
  std::vector<std::string> words;
  char quote = 0;  // of the quoted text that a word stands in
  for (const absl::string_view word : absl::StrSplit(message, ' ')) {
    const bool opens = quote == 0 && (absl::StartsWith(word, "'") || absl::StartsWith(word, "\""));
    if (opens) quote = word.front();
    const bool quoted = quote != 0;
    const absl::string_view rest = opens ? word.substr(1) : word;
    if (quoted && absl::StrContains(rest, quote)) quote = 0;
    if (quoted || !absl::StrContains(word, '/')) {
      words.emplace_back(word);
    } else {
      const bool stops = absl::StrContains(".,;:", word.substr(word.size() - 1));
      words.push_back(absl::StrCat("a file", stops ? word.substr(word.size() - 1) : ""));
    }
  }
  return absl::StrJoin(words, " ");
}

}  // namespace recollect::service
