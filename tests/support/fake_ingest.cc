// The ingests of the fake engine.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/sha256.h"
#include "base/status.h"
#include "engine/ingest/ingest_quota.h"
#include "engine/step/limits.h"
#include "model/text/tokenizer.h"
#include "store/metadata.h"
#include "tests/support/fake_engine.h"

namespace recollect {
namespace {

constexpr int64_t kCommitBytes = 16;  // an ingest commits at multiples of this, and when asked to

// The bytes from `begin` on, each of which is a token. The last batch has all chunks.
store::IngestBatch Batch(const std::string& text, int64_t begin, int64_t end, bool last) {
  store::IngestBatch batch;
  batch.text = text.substr(begin, end - begin);
  batch.tokens.assign(batch.text.begin(), batch.text.end());
  batch.input_offset = end;
  for (int64_t at = 0; last && at < end; at += FakeEngine::kChunkBytes) {
    batch.chunks.push_back({.states = {Bf16()}, .rows = 1, .tokens = {}});
  }
  batch.landmark_keys.resize(batch.chunks.size());
  return batch;
}

std::string HashInput(const std::string& text, bool from_tokens) {
  if (text.empty()) return "";
  const std::vector<int32_t> tokens(text.begin(), text.end());
  Sha256 hash;
  hash.Update(from_tokens ? absl::string_view(reinterpret_cast<const char*>(tokens.data()),
                                              tokens.size() * sizeof(int32_t))
                          : text);
  return hash.Hex();
}

}  // namespace

class FakeEngine::Stream final : public engine::IngestStream {
  struct Cancellation final : engine::RequestHandle {
    explicit Cancellation(FakeEngine& of) : engine(of) {}
    void Cancel() override {
      std::lock_guard lock(engine.mutex_);
      if (!std::exchange(cancelled, true)) ++engine.seen_.cancelled_ingests;
      engine.changed_.notify_all();
    }
    FakeEngine& engine;
    bool cancelled = false;
  };

 public:
  // Goes on after the `committed` input; or `compares` it with the published document of that id;
  // or goes on after the text of that document, `appends_to`.
  Stream(FakeEngine& engine, std::string id, bool from_tokens, bool compares, OwnerId owner,
         std::string committed, std::optional<std::string> metadata, engine::IngestQuota quota = {},
         const std::string& appends_to = "")
      : engine_(engine),
        id_(std::move(id)),
        from_tokens_(from_tokens),
        compares_(compares),
        owner_(owner),
        quota_(std::move(quota)),
        metadata_(std::move(metadata)),
        committed_sha256_(HashInput(committed, from_tokens)),
        base_(std::ssize(appends_to)),
        committed_(std::ssize(committed)),
        text_(committed + appends_to) {}
  ~Stream() override {
    std::lock_guard lock(engine_.mutex_);
    if (!WritesLocked()) return;
    engine_.writers_.erase(id_);
    if (committed_ == 0) engine_.store_->AbandonIngest(id_).IgnoreError();
    engine_.changed_.notify_all();
  }
  engine::IngestStatus status() const override {
    std::lock_guard lock(engine_.mutex_);
    return StatusLocked();
  }
  void Append(int64_t offset, std::string text, AppendDone done) override {
    engine_.Reply(done, [&]() -> absl::StatusOr<engine::IngestStatus> {
      RETURN_IF_ERROR(AddLocked(offset, text));
      return StatusLocked();
    });
  }
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override {
    Append(offset, std::string(tokens.begin(), tokens.end()), std::move(done));
  }
  void Commit(AppendDone done) override {
    engine_.Reply(done, [&]() -> absl::StatusOr<engine::IngestStatus> {
      RETURN_IF_ERROR(CheckLocked());
      if (!compares_) RETURN_IF_ERROR(CommitLocked(std::ssize(text_)));
      return StatusLocked();
    });
  }
  void Finish(std::function<void(absl::StatusOr<store::DocumentInfo>)> done) override {
    engine_.Reply(done, [&] { return FinishLocked(); });
  }
  std::shared_ptr<engine::RequestHandle> handle() const override { return cancellation_; }

 private:
  engine::IngestStatus StatusLocked() const {
    const int64_t size = std::ssize(text_);
    return {.committed_offset = std::max<int64_t>(0, committed_ - base_),
            .accepted_offset = size - base_,
            .bytes = size,
            .tokens = size,
            .chunks = size / kChunkBytes,
            .tokens_per_s = 1000,
            .committed_sha256 = committed_sha256_};
  }

  absl::Status AddLocked(int64_t offset, const std::string& input) {
    RETURN_IF_ERROR(CheckLocked());
    const int64_t expected = std::ssize(text_) - base_;
    if (offset != expected) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece.offset: ", offset, ", expected ", expected));
    }
    RETURN_IF_ERROR(CheckText(text_ + input, /*final=*/false));
    if (quota_.account != nullptr)
      RETURN_IF_ERROR(quota_.account->CheckBytes(std::ssize(text_ + input), quota_.bytes));
    text_ += input;
    if (compares_) return absl::OkStatus();
    return CommitLocked(std::max(committed_, std::ssize(text_) / kCommitBytes * kCommitBytes));
  }

  absl::Status CommitLocked(int64_t end) {
    const int64_t begin = std::exchange(committed_, end);
    return engine_.store_->CommitIngest(owner_, Batch(text_, begin, end, /*last=*/false));
  }

  absl::StatusOr<store::DocumentInfo> FinishLocked() {
    RETURN_IF_ERROR(CheckLocked());
    if (compares_) {
      ASSIGN_OR_RETURN(store::DocumentInfo info, engine_.store_->Get(id_));
      ASSIGN_OR_RETURN(const std::string text, engine_.store_->ReadText(info.owner, 0, info.bytes));
      if (text == text_ && info.from_tokens == from_tokens_) {
        if (!metadata_.has_value()) return info;
        return engine_.store_->ChangeMetadata(id_, [&](const std::string&) { return *metadata_; });
      }
      return absl::AlreadyExistsError(
          absl::StrCat("document '", id_, "' exists with other content"));
    }
    if (text_.empty()) return absl::InvalidArgumentError("the document has no tokens");
    RETURN_IF_ERROR(CheckText(text_, /*final=*/true));
    engine_.writers_.erase(id_);
    engine_.changed_.notify_all();
    store::IngestBatch last = Batch(text_, committed_, std::ssize(text_), /*last=*/true);
    last.metadata = metadata_;
    return engine_.store_->PublishIngest(owner_, last);
  }

  absl::Status CheckLocked() const {
    RETURN_IF_ERROR(engine_.RefusalLocked());
    if (cancellation_->cancelled) return absl::CancelledError("cancelled by the client");
    if (compares_ || WritesLocked()) return absl::OkStatus();
    return absl::FailedPreconditionError("the document was deleted");
  }

  absl::Status CheckText(const std::string& text, bool final) const {
    const int64_t bad = from_tokens_ ? -1 : model::FindInvalidUtf8(text, !final);
    if (bad < 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("text is not valid UTF-8 at byte ", bad));
  }

  bool WritesLocked() const {
    const auto found = engine_.writers_.find(id_);
    return found != engine_.writers_.end() && found->second.stream == this;
  }

  FakeEngine& engine_;
  const std::string id_;
  const bool from_tokens_, compares_;
  const OwnerId owner_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>(engine_);
  const engine::IngestQuota quota_;
  const std::optional<std::string> metadata_;
  const std::string committed_sha256_;
  const int64_t base_;
  int64_t committed_;
  std::string text_;
};

void FakeEngine::AddDocument(const std::string& id, const std::string& text) {
  store_->Remove(id).IgnoreError();
  const OwnerId owner = store_->BeginIngest(id, "fake", /*from_tokens=*/false, "").value().owner;
  const int64_t size = std::ssize(text);
  RECOLLECT_CHECK(store_->PublishIngest(owner, Batch(text, 0, size, /*last=*/true)).ok());
}

absl::StatusOr<std::unique_ptr<engine::IngestStream>> FakeEngine::BeginIngest(
    const std::string& id, bool from_tokens, const engine::SessionOptions& session,
    const engine::Origin& origin, const std::optional<engine::Replacement>& replacement,
    const std::optional<std::string>& metadata) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(RefusalLocked());
  RETURN_IF_ERROR(engine::CheckNewDocumentId(id));
  RETURN_IF_ERROR(engine::CheckSession(session));
  std::optional<std::string> described;
  if (metadata.has_value()) {
    ASSIGN_OR_RETURN(described, store::ReadMetadata(*metadata));
  }
  seen_.ingest = session;
  seen_.replacement = replacement;
  seen_.peer = origin.peer;
  if (writers_.contains(id)) {
    return absl::AbortedError(absl::StrCat("another stream writes '", id, "'"));
  }
  const absl::StatusOr<store::DocumentInfo> there = store_->Get(id);
  if (there.ok() && !replacement.has_value()) {
    return std::make_unique<Stream>(*this, id, from_tokens, /*compares=*/true, OwnerId{}, "",
                                    std::move(described));
  }
  RETURN_IF_ERROR(CheckRoom("ingests", writers_, max_ingests, origin.peer));
  std::vector<std::string> open;
  for (const auto& [other, writer] : writers_) open.push_back(other);
  ASSIGN_OR_RETURN(engine::IngestQuota quota,
                   engine::CheckQuota(origin.account, *store_, *store_, open, id));
  if (replacement.has_value()) {
    if (!replacement->sha256.empty() && (!there.ok() || there->sha256 != replacement->sha256)) {
      return absl::FailedPreconditionError(
          absl::StrCat("document '", id, "' is not of SHA-256 ", replacement->sha256));
    }
    store_->AbandonIngest(id).IgnoreError();
  }
  ASSIGN_OR_RETURN(const auto progress, there.ok()
                                            ? store_->BeginRefresh(*there, "fake", "")
                                            : store_->BeginIngest(id, "fake", from_tokens, ""));
  ASSIGN_OR_RETURN(const auto committed, store_->ReadText(progress.owner, 0, progress.bytes));
  std::string appends_to;
  if (there.ok() && replacement.has_value() && replacement->appends) {
    ASSIGN_OR_RETURN(appends_to, store_->ReadText(there->owner, 0, there->bytes));
  }
  auto stream =
      std::make_unique<Stream>(*this, id, from_tokens, /*compares=*/false, progress.owner,
                               committed, std::move(described), std::move(quota), appends_to);
  writers_[id] = {stream.get(), origin.peer};
  changed_.notify_all();
  return stream;
}

absl::Status FakeEngine::DeleteDocument(const std::string& id) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(RefusalLocked());
  RETURN_IF_ERROR(engine::CheckDocumentId(id));
  writers_.erase(id);
  const bool abandoned = store_->AbandonIngest(id).ok();
  const absl::Status removed = store_->Remove(id).status();
  return abandoned ? absl::OkStatus() : removed;
}

}  // namespace recollect
