#include "engine/ingest/reingest.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/sync/mutex.h"

namespace recollect::engine {

struct ReingestCheck::State {
  State(store::DocumentStore& store_in, std::shared_ptr<Executor> thread_in, Counters& counters_in,
        Pin pin_in, bool from_tokens_in, std::optional<std::string> metadata_in)
      : store(store_in),
        thread(std::move(thread_in)),
        counters(counters_in),
        info(pin_in->info()),
        from_tokens(from_tokens_in),
        metadata(std::move(metadata_in)),
        pin(std::move(pin_in)) {}

  int64_t length() const { return from_tokens ? info.tokens : info.bytes; }
  const char* unit() const { return from_tokens ? " tokens" : " bytes"; }

  absl::Status Other(absl::string_view what) const {
    return absl::AlreadyExistsError(
        absl::StrCat("document \"", info.id, "\" exists with other content: ", what));
  }

  template <typename Content>
  void Append(std::shared_ptr<State> self, int64_t offset, Content content,
              IngestStream::AppendDone done) {
    auto shared = std::make_shared<Content>(std::move(content));
    const auto work = [self, offset, shared, done] {
      const absl::Status status =
          OrExhausted("comparing", [&] { return self->Compare(offset, *shared); });
      if (status.ok()) {
        done(self->Status());
      } else {
        done(status);
      }
    };
    if (!thread->Post(work)) done(absl::UnavailableError("the engine is shutting down"));
  }

  // The first difference decides for good.
  template <typename Content>
  absl::Status Compare(int64_t offset, const Content& content) {
    MutexLock lock(mutex);
    RETURN_IF_ERROR(failed);
    if (offset != accepted) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece.offset: ", offset, ", expected ", accepted));
    }
    failed = CompareWithStored(content);
    counters.CountError(failed);
    if (failed.ok()) accepted += static_cast<int64_t>(content.size());
    return failed;
  }

  absl::StatusOr<std::string> Stored(const std::string&, int64_t begin, int64_t end) {
    return store.ReadText(info.owner, begin, end);
  }
  absl::StatusOr<std::vector<int32_t>> Stored(const std::vector<int32_t>&, int64_t begin,
                                              int64_t end) {
    return store.ReadTokens(info.owner, begin, end);
  }

  template <typename Content>
  absl::Status CompareWithStored(const Content& content) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    constexpr bool kTokens = !std::is_same_v<Content, std::string>;
    if (kTokens != from_tokens) {
      return absl::InvalidArgumentError("text and token ids cannot be mixed in one stream");
    }
    if (from_tokens != info.from_tokens) {
      return Other(info.from_tokens ? "it was ingested as token ids" : "it was ingested as text");
    }
    const int64_t end = accepted + static_cast<int64_t>(content.size());
    const int64_t stored_end = std::min(end, length());
    ASSIGN_OR_RETURN(const Content stored, Stored(content, accepted, stored_end));
    const auto [mine, theirs] =
        std::mismatch(content.begin(), content.begin() + (stored_end - accepted), stored.begin());
    if (theirs != stored.end()) {
      return Other(
          absl::StrCat("first difference at offset ", accepted + (theirs - stored.begin())));
    }
    if (end > length()) {
      return Other(absl::StrCat("it has ", length(), unit(), ", the input at least ", end));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<store::DocumentInfo> Finish() {
    MutexLock lock(mutex);
    RETURN_IF_ERROR(failed);
    if (from_tokens != info.from_tokens) {
      return Other(info.from_tokens ? "it was ingested as token ids" : "it was ingested as text");
    }
    if (accepted != length()) {
      return Other(absl::StrCat("it has ", length(), unit(), ", the input ", accepted));
    }
    return Described();
  }

  // Returns the document with its metadata as it is now. It may have been deleted or replaced
  // meanwhile: then as it was compared.
  absl::StatusOr<store::DocumentInfo> Described() {
    auto now = store.Get(info.id);
    if (now.ok() && now->owner == info.owner && metadata.has_value()) {
      now = store.ChangeMetadata(info.id, [&](const std::string&) { return *metadata; });
    }
    if (absl::IsNotFound(now.status()) || (now.ok() && now->owner != info.owner)) return info;
    counters.CountError(now.status());
    return now;
  }

  IngestStatus Status() {
    MutexLock lock(mutex);
    IngestStatus status;
    status.accepted_offset = accepted;
    status.bytes = info.bytes;
    status.tokens = info.tokens;
    status.chunks = info.chunks;
    return status;
  }

  store::DocumentStore& store;
  const std::shared_ptr<Executor> thread;
  Counters& counters;
  const store::DocumentInfo info;
  const bool from_tokens;
  const std::optional<std::string> metadata;
  Mutex mutex;
  Pin pin ABSL_GUARDED_BY(mutex);
  int64_t accepted ABSL_GUARDED_BY(mutex) = 0;
  absl::Status failed ABSL_GUARDED_BY(mutex);
};

ReingestCheck::ReingestCheck(store::DocumentStore& store, std::shared_ptr<Executor> thread,
                             Counters& counters, Pin pin, bool from_tokens,
                             std::optional<std::string> metadata)
    : state_(std::make_shared<State>(store, std::move(thread), counters, std::move(pin),
                                     from_tokens, std::move(metadata))) {}

ReingestCheck::~ReingestCheck() { Close(absl::CancelledError("the stream was closed")); }

void ReingestCheck::Close(const absl::Status& status) {
  Pin pin;  // let go outside the lock
  MutexLock lock(state_->mutex);
  std::swap(pin, state_->pin);
  if (state_->failed.ok()) state_->failed = status;
}

IngestStatus ReingestCheck::status() const { return state_->Status(); }

void ReingestCheck::Append(int64_t offset, std::string text, AppendDone done) {
  state_->Append(state_, offset, std::move(text), std::move(done));
}

void ReingestCheck::AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) {
  state_->Append(state_, offset, std::move(tokens), std::move(done));
}

// Nothing is written.
void ReingestCheck::Commit(AppendDone done) {
  state_->Append(state_, status().accepted_offset, std::string(), std::move(done));
}

void ReingestCheck::Finish(std::function<void(absl::StatusOr<store::DocumentInfo>)> done) {
  if (!state_->thread->Post([state = state_, done] { done(state->Finish()); })) {
    done(absl::UnavailableError("the engine is shutting down"));
  }
}

}  // namespace recollect::engine
