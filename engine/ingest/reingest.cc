#include "engine/ingest/reingest.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"

namespace recollect::engine {

ReingestCheck::ReingestCheck(const IngestContext& context, Pin pin, bool from_tokens,
                             std::optional<std::string> metadata)
    : catalog_(context.catalog),
      reader_(context.reader),
      thread_(context.thread),
      counters_(context.counters),
      info_(pin->info()),
      from_tokens_(from_tokens),
      metadata_(std::move(metadata)),
      pin_(std::move(pin)) {}

void ReingestCheck::Close(const absl::Status& status) {
  Pin pin;  // let go outside the lock
  MutexLock lock(mutex_);
  std::swap(pin, pin_);
  if (failed_.ok()) failed_ = status;
}

IngestStatus ReingestCheck::status() const {
  MutexLock lock(mutex_);
  IngestStatus status;
  status.accepted_offset = accepted_;
  status.bytes = info_.bytes;
  status.tokens = info_.tokens;
  status.chunks = info_.chunks;
  return status;
}

void ReingestCheck::Append(int64_t offset, std::string text, AppendDone done) {
  Post(offset, std::move(text), std::move(done));
}

void ReingestCheck::AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) {
  Post(offset, std::move(tokens), std::move(done));
}

// Nothing is written.
void ReingestCheck::Commit(AppendDone done) {
  Post(status().accepted_offset, std::string(), std::move(done));
}

void ReingestCheck::Finish(FinishDone done) {
  if (!thread_->Post([self = shared_from_this(), done] { done(self->End()); })) {
    done(ShuttingDown());
  }
}

template <typename Content>
void ReingestCheck::Post(int64_t offset, Content content, AppendDone done) {
  auto work = [self = shared_from_this(), offset, content = std::move(content), done] {
    const absl::Status status =
        OrExhausted("comparing", [&] { return self->Compare(offset, content); });
    status.ok() ? done(self->status()) : done(status);
  };
  if (!thread_->Post(std::move(work))) done(ShuttingDown());
}

absl::Status ReingestCheck::Other(absl::string_view what) const {
  return absl::AlreadyExistsError(
      absl::StrCat("document \"", info_.id, "\" exists with other content: ", what));
}

absl::Status ReingestCheck::CheckKind() const {
  if (from_tokens_ == info_.from_tokens) return absl::OkStatus();
  return Other(info_.from_tokens ? "it was ingested as token ids" : "it was ingested as text");
}

// The first difference decides for good.
template <typename Content>
absl::Status ReingestCheck::Compare(int64_t offset, const Content& content) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(failed_);
  if (offset != accepted_) {
    return absl::InvalidArgumentError(
        absl::StrCat("piece.offset: ", offset, ", expected ", accepted_));
  }
  failed_ = CompareWithStored(content);
  counters_.CountError(failed_);
  if (failed_.ok()) accepted_ += std::ssize(content);
  return failed_;
}

absl::StatusOr<std::string> ReingestCheck::Stored(const std::string&, int64_t begin, int64_t end) {
  return reader_.ReadText(info_.owner, begin, end);
}
absl::StatusOr<std::vector<int32_t>> ReingestCheck::Stored(const std::vector<int32_t>&,
                                                           int64_t begin, int64_t end) {
  return reader_.ReadTokens(info_.owner, begin, end);
}

template <typename Content>
absl::Status ReingestCheck::CompareWithStored(const Content& content) {
  constexpr bool kTokens = !std::is_same_v<Content, std::string>;
  if (kTokens != from_tokens_) {
    return absl::InvalidArgumentError("text and token ids cannot be mixed in one stream");
  }
  RETURN_IF_ERROR(CheckKind());
  const int64_t end = accepted_ + std::ssize(content);
  const int64_t stored_end = std::min(end, length());
  ASSIGN_OR_RETURN(const Content stored, Stored(content, accepted_, stored_end));
  const auto [mine, theirs] =
      std::mismatch(content.begin(), content.begin() + (stored_end - accepted_), stored.begin());
  if (theirs != stored.end()) {
    return Other(
        absl::StrCat("first difference at offset ", accepted_ + (theirs - stored.begin())));
  }
  if (end > length()) {
    return Other(absl::StrCat("it has ", length(), unit(), ", the input at least ", end));
  }
  return absl::OkStatus();
}

absl::StatusOr<store::DocumentInfo> ReingestCheck::End() {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(failed_);
  RETURN_IF_ERROR(CheckKind());
  if (accepted_ == length()) return Described();
  return Other(absl::StrCat("it has ", length(), unit(), ", the input ", accepted_));
}

// Returns the document with its metadata as it is now. It may have been deleted or replaced
// meanwhile: then as it was compared.
absl::StatusOr<store::DocumentInfo> ReingestCheck::Described() {
  auto now = catalog_.Get(info_.id);
  if (now.ok() && now->owner == info_.owner && metadata_.has_value()) {
    now = catalog_.ChangeMetadata(info_.id, [&](const std::string&) { return *metadata_; });
  }
  if (absl::IsNotFound(now.status()) || (now.ok() && now->owner != info_.owner)) return info_;
  counters_.CountError(now.status());
  return now;
}

}  // namespace recollect::engine
