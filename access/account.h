// What a key uses, against its quota: the engine asks before it begins something, and tells what it
// has read.
//
//   RETURN_IF_ERROR(account->CheckTokens());
//   ASSIGN_OR_RETURN(const auto place, account->TakeSession());
//   … account->SpendTokens(piece.rows());
//
// All refusals are RESOURCE_EXHAUSTED and name the key, what it uses and what it may use.
#ifndef RECOLLECT_ACCESS_ACCOUNT_H_
#define RECOLLECT_ACCESS_ACCOUNT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "access/key.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace recollect::access {

// Everything that is done with one key, over gRPC and HTTP. Thread-safe. REQUIRES: owned by a
// shared_ptr.
class Account : public std::enable_shared_from_this<Account> {
 public:
  explicit Account(const Key& key) : key_(key) {}

  // The key as it is from now on. What was used stays used.
  void Set(const Key& key);

  // One session more, for as long as what is returned exists.
  absl::StatusOr<std::shared_ptr<void>> TakeSession();

  // A token bucket that holds what may be read in one minute, and fills evenly. A request may begin
  // while there is anything in it, and is read to its end: the next ones wait until that is made up
  // for. The refusal says when (RetryAfter).
  absl::Status CheckTokens();
  void SpendTokens(int64_t tokens);

  // Whether documents are counted at all, and which: those whose ids begin with this.
  std::optional<std::string> counted_prefix() const;
  // For one document more beside `documents` that have `bytes` of text in all. Returns how many
  // bytes the new one may have.
  absl::StatusOr<int64_t> CheckDocument(int64_t documents, int64_t bytes) const;
  // For a document that has grown to `bytes`, of which it may have `room`.
  absl::Status CheckBytes(int64_t bytes, int64_t room) const;

 private:
  Quota quota() const;
  absl::Status Refusal(absl::string_view used, absl::string_view allowed) const;
  void FillLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Key key_ ABSL_GUARDED_BY(mutex_);
  int64_t sessions_ ABSL_GUARDED_BY(mutex_) = 0;
  double tokens_used_ ABSL_GUARDED_BY(mutex_) = 0;  // of the bucket, and not filled again yet
  absl::Time filled_ ABSL_GUARDED_BY(mutex_) = SteadyNow();
};

// When what was refused may be tried again, where a refusal says so; carried by the status.
absl::Status WithRetryAfter(absl::Status status, absl::Duration wait);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

}  // namespace recollect::access

#endif  // RECOLLECT_ACCESS_ACCOUNT_H_
