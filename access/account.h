// Counts the usage of a key against its quota: the engine asks before it begins something, and
// reports what it has read.
//
//   RETURN_IF_ERROR(account->CheckTokens());
//   ASSIGN_OR_RETURN(const auto place, account->TakeSession());
//   … account->SpendTokens(piece.rows());
//
// All refusals are RESOURCE_EXHAUSTED and name the key, its usage and its quota.
#pragma once

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
#include "base/sync/mutex.h"

namespace recollect::access {

// The usage of one key, over gRPC and HTTP together. Thread-safe. REQUIRES: owned by a shared_ptr.
class Account : public std::enable_shared_from_this<Account> {
 public:
  explicit Account(const Key& key) : key_(key) {}

  // Replaces the key; its usage so far stays counted.
  void Set(const Key& key);

  // Counts one more session until the returned object is destroyed.
  absl::StatusOr<std::shared_ptr<void>> TakeSession();

  // A token bucket that holds the tokens of one minute and refills evenly. A request may begin
  // while the bucket is not empty, and is read to its end, even into debt; the next ones are
  // refused until the debt is refilled. The refusal says when that is (RetryAfter).
  absl::Status CheckTokens();
  void SpendTokens(int64_t tokens);

  // Returns the prefix of the ids of the documents that are counted, or nothing if none are.
  std::optional<std::string> counted_prefix() const;
  // Checks whether one more document is allowed beside `documents` that have `bytes` of text in
  // all. Returns how many bytes the new one may have.
  absl::StatusOr<int64_t> CheckDocument(int64_t documents, int64_t bytes) const;
  // Checks a document that has grown to `bytes`, where `room` is the most that it may have.
  absl::Status CheckBytes(int64_t bytes, int64_t room) const;

 private:
  Quota quota() const;
  absl::Status Refusal(absl::string_view used, absl::string_view allowed) const;
  void FillLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Key key_ ABSL_GUARDED_BY(mutex_);
  int64_t sessions_ ABSL_GUARDED_BY(mutex_) = 0;
  double tokens_used_ ABSL_GUARDED_BY(mutex_) = 0;  // taken from the bucket, not refilled yet
  absl::Time filled_ ABSL_GUARDED_BY(mutex_) = SteadyNow();
};

// Attach to a status, or read from it, the wait before a refused request may be repeated; nothing
// if the status has none.
absl::Status WithRetryAfter(absl::Status status, absl::Duration wait);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

}  // namespace recollect::access
