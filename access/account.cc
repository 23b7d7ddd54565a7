#include "access/account.h"

#include <algorithm>
#include <limits>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace recollect::access {
namespace {

constexpr char kRetryAfter[] = "recollect/retry-after-seconds";

}  // namespace

absl::Status WithRetryAfter(absl::Status status, absl::Duration wait) {
  status.SetPayload(kRetryAfter, absl::Cord(absl::StrCat(absl::ToDoubleSeconds(wait))));
  return status;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfter);
  double seconds = 0;
  if (!payload.has_value() || !absl::SimpleAtod(std::string(*payload), &seconds)) return {};
  return absl::Seconds(seconds);
}

void Account::Set(const Key& key) {
  MutexLock lock(mutex_);
  FillLocked();  // at the rate until now
  key_ = key;
}

Quota Account::quota() const {
  MutexLock lock(mutex_);
  return key_.quota;
}

absl::Status Account::Refusal(absl::string_view used, absl::string_view allowed) const {
  MutexLock lock(mutex_);
  return absl::ResourceExhaustedError(
      absl::StrCat("key '", key_.name, "': ", used, ", its quota is ", allowed));
}

absl::StatusOr<std::shared_ptr<void>> Account::TakeSession() {
  int64_t open, most;
  {
    MutexLock lock(mutex_);
    open = sessions_;
    most = key_.quota.max_sessions;
    if (most == 0 || open < most) {
      ++sessions_;
      return std::shared_ptr<void>(this, [self = shared_from_this()](void*) {
        MutexLock again(self->mutex_);
        --self->sessions_;
      });
    }
  }
  return Refusal(absl::StrCat(open, " sessions are open"), absl::StrCat(most));
}

void Account::FillLocked() {
  const absl::Time now = SteadyNow();
  const auto rate = static_cast<double>(key_.quota.tokens_per_minute);
  tokens_used_ = std::max(0.0, tokens_used_ - absl::ToDoubleMinutes(now - filled_) * rate);
  filled_ = now;
}

absl::Status Account::CheckTokens() {
  double used;
  int64_t rate;
  {
    MutexLock lock(mutex_);
    rate = key_.quota.tokens_per_minute;
    FillLocked();
    used = tokens_used_;
  }
  if (rate == 0 || used < static_cast<double>(rate)) return absl::OkStatus();
  const double over = used - static_cast<double>(rate) + 1;
  return WithRetryAfter(
      Refusal(absl::StrCat(static_cast<int64_t>(over), " tokens too many were read"),
              absl::StrCat(rate, " a minute")),
      absl::Minutes(over / static_cast<double>(rate)));
}

void Account::SpendTokens(int64_t tokens) {
  MutexLock lock(mutex_);
  FillLocked();
  if (key_.quota.tokens_per_minute > 0) tokens_used_ += static_cast<double>(tokens);
}

std::optional<std::string> Account::counted_prefix() const {
  MutexLock lock(mutex_);
  if (key_.quota.max_documents == 0 && key_.quota.max_bytes == 0) return std::nullopt;
  return key_.prefix;
}

absl::StatusOr<int64_t> Account::CheckDocument(int64_t documents, int64_t bytes) const {
  const Quota most = quota();
  if (most.max_documents > 0 && documents >= most.max_documents)
    return Refusal(absl::StrCat(documents, " documents are there"),
                   absl::StrCat(most.max_documents));
  if (most.max_bytes == 0) return std::numeric_limits<int64_t>::max();
  if (bytes >= most.max_bytes)
    return Refusal(absl::StrCat("its documents have ", bytes, " bytes of text"),
                   absl::StrCat(most.max_bytes));
  return most.max_bytes - bytes;
}

absl::Status Account::CheckBytes(int64_t bytes, int64_t room) const {
  if (bytes <= room) return absl::OkStatus();
  return Refusal(absl::StrCat("this document has ", bytes, " bytes of text up to here, ", room,
                              " were left for it"),
                 absl::StrCat(quota().max_bytes));
}

}  // namespace recollect::access
