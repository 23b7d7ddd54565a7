#include "engine/ingest/ingest_registry.h"

#include <algorithm>
#include <future>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "access/places.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/ingest/append.h"

namespace recollect::engine {
namespace {

constexpr char kDeleted[] = "the document was deleted";

// Whether the text committed so far is the document's: a replacement that ended with its process
// has left another.
absl::StatusOr<bool> IsBeginningOf(store::DocumentStore& store,
                                   const store::IngestProgress& progress,
                                   const store::DocumentInfo& document) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  if (progress.bytes > document.bytes) return false;
  for (int64_t begin = 0; begin < progress.bytes; begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, progress.bytes);
    ASSIGN_OR_RETURN(const std::string read, store.ReadText(progress.owner, begin, end));
    ASSIGN_OR_RETURN(const std::string text, store.ReadText(document.owner, begin, end));
    if (read != text) return false;
  }
  return true;
}

}  // namespace

// What callers hold. Letting go of it ends the job.
class IngestRegistry::Stream final : public IngestStream {
 public:
  Stream(std::shared_ptr<IngestRegistry> registry, std::string id, std::shared_ptr<IngestJob> job)
      : registry_(std::move(registry)), id_(std::move(id)), job_(std::move(job)) {}
  ~Stream() override {
    job_->Fail(absl::CancelledError("the stream was closed"));
    registry_->Close(id_, job_);
  }
  IngestStatus status() const override { return job_->status(); }
  void Append(int64_t offset, std::string text, AppendDone done) override {
    job_->Append(offset, std::move(text), std::move(done));
  }
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override {
    job_->AppendTokens(offset, std::move(tokens), std::move(done));
  }
  void Commit(AppendDone done) override { job_->Commit(std::move(done)); }
  void Finish(IngestJob::FinishDone done) override { job_->Finish(std::move(done)); }
  std::shared_ptr<RequestHandle> handle() const override { return job_; }

 private:
  const std::shared_ptr<IngestRegistry> registry_;
  const std::string id_;
  const std::shared_ptr<IngestJob> job_;
};

class IngestRegistry::Check final : public IngestStream {
 public:
  explicit Check(std::shared_ptr<ReingestCheck> check) : check_(std::move(check)) {}
  IngestStatus status() const override { return check_->status(); }
  void Append(int64_t offset, std::string text, AppendDone done) override {
    check_->Append(offset, std::move(text), std::move(done));
  }
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override {
    check_->AppendTokens(offset, std::move(tokens), std::move(done));
  }
  void Commit(AppendDone done) override { check_->Commit(std::move(done)); }
  void Finish(IngestJob::FinishDone done) override { check_->Finish(std::move(done)); }

 private:
  const std::shared_ptr<ReingestCheck> check_;
};

void IngestRegistry::CloseFailed(const std::string& id) {
  std::shared_ptr<IngestJob> job;
  {
    MutexLock lock(mutex_);
    if (const auto found = entries_.find(id); found != entries_.end()) job = found->second.job;
  }
  if (job != nullptr && job->failed()) Close(id, job);
}

// Each gathers chunk states up to its next commit.
absl::Status IngestRegistry::CheckPlaces(const std::string& peer) const {
  const int64_t own = std::count_if(entries_.begin(), entries_.end(),
                                    [&](const auto& entry) { return entry.second.peer == peer; }) +
                      std::count_if(imports_.begin(), imports_.end(),
                                    [&](const Import& import) { return import.peer == peer; });
  return access::CheckPlace("ingests", std::ssize(entries_) + std::ssize(imports_),
                            context_.max_ingests, peer, own);
}

absl::Status IngestRegistry::CheckNotImported(const std::string& id) const {
  const bool imported = std::any_of(imports_.begin(), imports_.end(),
                                    [&](const Import& import) { return import.id == id; });
  if (!imported) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("document \"", id, "\" is being imported"));
}

class IngestRegistry::Hold final : public IngestRegistry::ImportHold {
 public:
  Hold(std::shared_ptr<IngestRegistry> registry, std::list<Import>::iterator import,
       std::shared_ptr<access::Account> account)
      : registry_(std::move(registry)), import_(import), account_(std::move(account)) {}
  ~Hold() override {
    MutexLock lock(registry_->mutex_);
    registry_->imports_.erase(import_);
  }
  absl::Status Take(const std::string& id, int64_t bytes) override {
    RETURN_IF_ERROR(Take(id));
    ASSIGN_OR_RETURN(const IngestQuota quota,
                     CheckQuota(account_, registry_->context_.store, registry_->OpenIds(), id));
    return account_ == nullptr ? absl::OkStatus() : account_->CheckBytes(bytes, quota.bytes);
  }
  void Published(const std::string& id) override { registry_->context_.published(id, OwnerId{}); }

 private:
  absl::Status Take(const std::string& id) {
    MutexLock lock(registry_->mutex_);
    if (registry_->closed_) return absl::UnavailableError("the engine is shutting down");
    RETURN_IF_ERROR(registry_->CheckNotImported(id));
    // One that has published is done, even if its entry is still there.
    const auto found = registry_->entries_.find(id);
    if (found != registry_->entries_.end() &&
        (found->second.job == nullptr || !found->second.job->published())) {
      return absl::AbortedError(absl::StrCat("another stream is writing document \"", id, "\""));
    }
    import_->id = id;
    return absl::OkStatus();
  }

  const std::shared_ptr<IngestRegistry> registry_;
  const std::list<Import>::iterator import_;
  const std::shared_ptr<access::Account> account_;  // null: nothing is counted
};

absl::StatusOr<IngestRegistry::ImportPlace> IngestRegistry::ReserveImport(const Origin& origin) {
  MutexLock lock(mutex_);
  if (closed_) return absl::UnavailableError("the engine is shutting down");
  RETURN_IF_ERROR(CheckPlaces(origin.peer));
  return std::make_unique<Hold>(shared_from_this(),
                                imports_.insert(imports_.end(), {.peer = origin.peer, .id = ""}),
                                origin.account);
}

absl::Status IngestRegistry::Reserve(const std::string& id, const std::string& peer) {
  MutexLock lock(mutex_);
  changed_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = entries_.find(id);
    return closed_ || found == entries_.end() || !found->second.closing;
  });
  if (closed_) return absl::UnavailableError("the engine is shutting down");
  const auto found = entries_.find(id);
  const bool idle =
      found == entries_.end() || (found->second.job != nullptr && found->second.job->published());
  if (!idle) {
    return absl::AbortedError(absl::StrCat("another stream is writing document \"", id, "\""));
  }
  RETURN_IF_ERROR(CheckNotImported(id));
  if (found == entries_.end()) RETURN_IF_ERROR(CheckPlaces(peer));
  entries_[id] = {.peer = peer, .job = nullptr};
  return absl::OkStatus();
}

int64_t IngestRegistry::size() const {
  MutexLock lock(mutex_);
  return std::ssize(entries_) + std::ssize(imports_);
}

std::vector<std::string> IngestRegistry::OpenIds() const {
  std::vector<std::string> ids;
  MutexLock lock(mutex_);
  for (const auto& [id, entry] : entries_) ids.push_back(id);
  for (const Import& import : imports_)
    if (!import.id.empty()) ids.push_back(import.id);
  return ids;
}

void IngestRegistry::Forget(const std::string& id) {
  {
    MutexLock lock(mutex_);
    entries_.erase(id);
  }
  changed_.notify_all();
}

absl::StatusOr<std::unique_ptr<IngestStream>> IngestRegistry::Begin(
    const std::string& id, bool from_tokens, const model::LocalPatterns& pattern,
    const Origin& origin, const std::optional<Replacement>& replacement,
    std::optional<std::string> metadata) {
  Pin appends_to;
  if (replacement.has_value() && replacement->appends) {
    absl::StatusOr<Pin> pinned = mounts_.PinDocument(id);
    if (!pinned.ok() && !absl::IsNotFound(pinned.status())) return pinned.status();
    if (pinned.ok()) appends_to = *std::move(pinned);
  }
  return Open({.id = id,
               .from_tokens = from_tokens,
               .pattern = pattern,
               .origin = origin,
               .replacement = replacement,
               .appends_to = std::move(appends_to),
               .metadata = std::move(metadata)});
}

absl::StatusOr<std::unique_ptr<IngestStream>> IngestRegistry::BeginRefresh(
    const store::DocumentInfo& document, const model::LocalPatterns& pattern,
    const Origin& origin) {
  return Open({.id = document.id, .pattern = pattern, .origin = origin, .refreshes = &document});
}

absl::StatusOr<IngestQuota> IngestRegistry::QuotaOf(const Asked& asked) const {
  if (asked.refreshes != nullptr) {
    return IngestQuota{asked.origin.account, std::numeric_limits<int64_t>::max()};
  }
  return CheckQuota(asked.origin.account, context_.store, OpenIds(), asked.id);
}

std::string IngestRegistry::KeptPattern(const model::LocalPatterns& pattern) const {
  return context_.model.config().documents() == DocumentKind::kPrefix ? pattern.Text() : "";
}

absl::StatusOr<store::IngestProgress> IngestRegistry::BeginInStore(const Asked& asked) {
  store::DocumentStore& store = context_.store;
  const std::string kept = KeptPattern(asked.pattern);
  const std::string& fingerprint = context_.model.fingerprint();
  if (asked.replacement.has_value()) return BeginReplacement(asked);
  if (asked.refreshes == nullptr) {
    return store.BeginIngest(asked.id, fingerprint, asked.from_tokens, kept);
  }
  auto progress = store.BeginRefresh(*asked.refreshes, fingerprint, kept);
  bool resumable = !absl::IsFailedPrecondition(progress.status());
  if (progress.ok()) {
    ASSIGN_OR_RETURN(resumable, IsBeginningOf(store, *progress, *asked.refreshes));
  }
  if (resumable) return progress;
  // All that is lost is what another model has read of it, or a replacement that was broken off.
  RETURN_IF_ERROR(store.AbandonIngest(asked.id));
  return store.BeginRefresh(*asked.refreshes, fingerprint, kept);
}

absl::StatusOr<store::IngestProgress> IngestRegistry::BeginReplacement(const Asked& asked) {
  store::DocumentStore& store = context_.store;
  const std::string kept = KeptPattern(asked.pattern);
  const std::string& fingerprint = context_.model.fingerprint();
  absl::StatusOr<store::DocumentInfo> document = store.Get(asked.id);
  if (!document.ok() && !absl::IsNotFound(document.status())) return document.status();
  const std::string& expected = asked.replacement->sha256;
  const std::string there =
      document.ok() ? absl::StrCat("has SHA-256 ", document->sha256) : "does not exist";
  if (!expected.empty() && (!document.ok() || document->sha256 != expected)) {
    return absl::FailedPreconditionError(absl::StrCat("document \"", asked.id, "\" ", there,
                                                      "; one of SHA-256 ", expected,
                                                      " was to be replaced"));
  }
  if (asked.replacement->appends) {
    // Between the look at it that Begin has taken and the place among the ingests.
    const OwnerId seen = asked.appends_to == nullptr ? OwnerId{} : asked.appends_to->info().owner;
    if (seen != (document.ok() ? document->owner : OwnerId{})) {
      return absl::AbortedError(
          absl::StrCat("another stream has just written document \"", asked.id, "\""));
    }
    if (document.ok())
      RETURN_IF_ERROR(CheckAppend(*document, asked.from_tokens, fingerprint, kept));
  }
  const absl::Status abandoned = store.AbandonIngest(asked.id);
  if (!abandoned.ok() && !absl::IsNotFound(abandoned)) return abandoned;
  if (asked.appends_to != nullptr) {
    return BeginAppend(context_, *document, kept);
  }
  if (!document.ok()) return store.BeginIngest(asked.id, fingerprint, asked.from_tokens, kept);
  document->from_tokens = asked.from_tokens;  // as the new one will be
  return store.BeginRefresh(*document, fingerprint, kept);
}

absl::StatusOr<std::unique_ptr<IngestStream>> IngestRegistry::Open(const Asked& asked) {
  const std::string& id = asked.id;
  if (!asked.from_tokens && context_.model.tokenizer() == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "document \"", id, "\": the model has no tokenizer: only token input is possible"));
  }
  const MemoryScope scope(MemoryScope::kTake);  // an id that is reserved is forgotten again
  CloseFailed(id);
  RETURN_IF_ERROR(Reserve(id, asked.origin.peer));
  const absl::StatusOr<IngestQuota> quota =
      OrExhausted("an ingest", [&] { return QuotaOf(asked); });
  if (!quota.ok()) {
    Forget(id);
    return quota.status();
  }
  const absl::StatusOr<store::IngestProgress> progress =
      OrExhausted("an ingest", [&] { return BeginInStore(asked); });
  if (!progress.ok()) {
    Forget(id);
    if (absl::IsAlreadyExists(progress.status())) {
      return BeginCheck(asked);
    }
    context_.counters.CountError(progress.status());
    return progress.status();
  }
  absl::StatusOr<std::shared_ptr<IngestJob>> job = OrExhausted("an ingest", [&] {
    return IngestJob::Create(context_, asked.pattern, *progress, *quota, asked.metadata);
  });
  if (!job.ok()) {
    if (progress->input_offset == 0 || asked.replacement.has_value()) DropRecord(id);
    Forget(id);
    context_.counters.CountError(job.status());
    return Annotate(job.status(), absl::StrCat("document \"", id, "\""));
  }
  {
    MutexLock lock(mutex_);
    if (closed_) return absl::UnavailableError("the engine is shutting down");
    entries_[id].job = *job;
    entries_[id].begins_anew = asked.replacement.has_value();
  }
  changed_.notify_all();
  scheduler_.AddIngest(*job);
  auto stream = std::make_unique<Stream>(shared_from_this(), id, *job);
  if (asked.appends_to == nullptr) return stream;
  return std::make_unique<AppendStream>(context_, asked.appends_to, progress->input_offset,
                                        *std::move(job), std::move(stream));
}

absl::StatusOr<std::unique_ptr<IngestStream>> IngestRegistry::BeginCheck(const Asked& asked) {
  const std::string& id = asked.id;
  const std::string pattern = KeptPattern(asked.pattern);
  absl::StatusOr<Pin> pinned = mounts_.PinDocument(id);
  // Deleted meanwhile: what is sent now is new.
  if (absl::IsNotFound(pinned.status())) return absl::AbortedError(kDeleted);
  ASSIGN_OR_RETURN(Pin pin, std::move(pinned));
  if (pin->info().fingerprint != context_.model.fingerprint()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "document \"", id, "\" exists, read by a model with fingerprint ", pin->info().fingerprint,
        "; this model has ", context_.model.fingerprint(), ": docs refresh reads it again"));
  }
  if (pin->info().pattern != pattern) {
    return absl::FailedPreconditionError(
        absl::StrCat("document \"", id, "\" exists, made under the pattern ", pin->info().pattern,
                     "; asked for ", pattern));
  }
  auto check = std::make_shared<ReingestCheck>(context_.store, context_.thread, context_.counters,
                                               std::move(pin), asked.from_tokens, asked.metadata);
  MutexLock lock(mutex_);
  if (closed_) return absl::UnavailableError("the engine is shutting down");
  std::erase_if(checks_, [](const auto& entry) { return entry.expired(); });
  checks_.push_back(check);
  return std::make_unique<Check>(std::move(check));
}

// The id is free again once the ingest thread has done all that was posted for the job before.
void IngestRegistry::Close(const std::string& id, const std::shared_ptr<IngestJob>& job) {
  bool begins_anew = false;
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    scheduler_.RemoveIngest(job.get());
    const auto found = entries_.find(id);
    if (found == entries_.end() || found->second.job != job || found->second.closing) return;
    found->second.closing = true;
    begins_anew = found->second.begins_anew;
  }
  context_.thread->Post(
      [self = shared_from_this(), id, unfinished = job->published() ? nullptr : job, begins_anew] {
        if (unfinished != nullptr && (begins_anew || unfinished->status().committed_offset == 0)) {
          self->DropRecord(id);
        } else if (unfinished != nullptr) {
          self->context_.store.LeaveIngest(unfinished->owner());
        }
        self->Forget(id);
      });
}

// What has nothing to resume is not worth keeping: it would be listed for ever, and refuse input of
// another kind. Nobody waits for it, and one that stays can be deleted.
void IngestRegistry::DropRecord(const std::string& id) {
  context_.store.AbandonIngest(id).IgnoreError();
}

absl::Status IngestRegistry::Abandon(const std::string& id) {
  const MemoryScope scope(MemoryScope::kTake);
  std::shared_ptr<IngestJob> job;
  {
    MutexLock lock(mutex_);
    // One that is being made can not be told yet, one that is ending ends first.
    changed_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const auto found = entries_.find(id);
      return closed_ || found == entries_.end() ||
             (found->second.job != nullptr && !found->second.closing);
    });
    if (closed_) return absl::UnavailableError("the engine is shutting down");
    Entry& entry = entries_[id];
    entry.closing = true;  // nobody begins it before it is gone
    job = entry.job;
    if (job != nullptr) scheduler_.RemoveIngest(job.get());
  }
  if (job != nullptr) job->Fail(absl::FailedPreconditionError(kDeleted));
  // After whatever the ingest thread still does for it.
  auto result = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> status = result->get_future();
  const bool posted = context_.thread->Post([this, id, result] {
    const absl::Status abandoned = context_.store.AbandonIngest(id);
    Forget(id);
    result->set_value(abandoned);
  });
  return posted ? status.get() : absl::UnavailableError("the engine is shutting down");
}

void IngestRegistry::Shutdown(const absl::Status& status) {
  std::vector<std::pair<std::string, std::shared_ptr<IngestJob>>> jobs;
  std::vector<std::shared_ptr<ReingestCheck>> checks;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    for (const auto& [id, entry] : entries_) {
      if (entry.job != nullptr) jobs.emplace_back(id, entry.job);
    }
    for (const auto& entry : checks_) {
      if (auto check = entry.lock()) checks.push_back(std::move(check));
    }
    entries_.clear();
  }
  changed_.notify_all();
  for (const auto& [id, job] : jobs) job->CommitRest();
  context_.thread->Stop();
  for (const auto& [id, job] : jobs) {
    job->Fail(status);
    if (job->status().committed_offset == 0) DropRecord(id);
  }
  for (const auto& check : checks) check->Close(status);
}

}  // namespace recollect::engine
