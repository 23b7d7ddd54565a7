#include "engine/ingest/ingest_registry.h"

#include <algorithm>
#include <future>
#include <limits>

#include "absl/strings/str_cat.h"
#include "access/places.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/ingest/append.h"

namespace recollect::engine {
namespace {

constexpr char kDeleted[] = "the document was deleted";

}  // namespace

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
  int64_t taken = std::ssize(imports_);
  int64_t own = std::count_if(imports_.begin(), imports_.end(),
                              [&](const Import& import) { return import.peer == peer; });
  for (const auto& [id, entry] : entries_) {
    taken += entry.has_place ? 1 : 0;
    own += entry.has_place && entry.peer == peer ? 1 : 0;
  }
  return access::CheckPlace("ingests", taken, context_.max_ingests, peer, own);
}

absl::Status IngestRegistry::CheckNotWritten(const std::string& id) const {
  // One that has published is done, even if its entry is still there.
  const auto found = entries_.find(id);
  if (found != entries_.end() &&
      (found->second.job == nullptr || !found->second.job->published())) {
    return absl::AbortedError(absl::StrCat("another stream is writing document \"", id, "\""));
  }
  const bool imported = std::any_of(imports_.begin(), imports_.end(),
                                    [&](const Import& import) { return import.id == id; });
  if (!imported) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("document \"", id, "\" is being imported"));
}

IngestRegistry::ImportHold::~ImportHold() {
  {
    MutexLock lock(registry_->mutex_);
    registry_->imports_.erase(import_);
  }
  registry_->GivePlaces();
}

absl::Status IngestRegistry::ImportHold::Take(const std::string& id, int64_t bytes) {
  {
    MutexLock lock(registry_->mutex_);
    if (registry_->closed_) return ShuttingDown();
    RETURN_IF_ERROR(registry_->CheckNotWritten(id));
    import_->id = id;
  }
  ASSIGN_OR_RETURN(const IngestQuota quota,
                   CheckQuota(account_, registry_->context_.catalog, registry_->context_.writer,
                              registry_->OpenIds(), id));
  return account_ == nullptr ? absl::OkStatus() : account_->CheckBytes(bytes, quota.bytes);
}

absl::StatusOr<IngestRegistry::ImportPlace> IngestRegistry::ReserveImport(const Origin& origin) {
  MutexLock lock(mutex_);
  if (closed_) return ShuttingDown();
  RETURN_IF_ERROR(CheckPlaces(origin.peer));
  return std::make_unique<ImportHold>(
      shared_from_this(), imports_.insert(imports_.end(), {.peer = origin.peer, .id = ""}),
      origin.account);
}

absl::Status IngestRegistry::Reserve(const AskedIngest& asked) {
  const std::string &id = asked.id, &peer = asked.origin.peer;
  const bool has_place = asked.place == IngestPlace::kAtOnce;
  MutexLock lock(mutex_);
  changed_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = entries_.find(id);
    return closed_ || found == entries_.end() || !found->second.closing;
  });
  if (closed_) return ShuttingDown();
  RETURN_IF_ERROR(CheckNotWritten(id));
  if (has_place && !entries_.contains(id)) RETURN_IF_ERROR(CheckPlaces(peer));
  entries_[id] = {.peer = peer, .job = nullptr, .has_place = has_place};
  return absl::OkStatus();
}

// Runs `call` once the stream of that job has a place. After an error of the job `call` meets it.
void IngestRegistry::WithPlace(const std::string& id, const std::shared_ptr<IngestJob>& job,
                               std::function<void()> call) {
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(id);
    const bool has_place =
        found != entries_.end() && found->second.job == job && found->second.has_place;
    if (!has_place) waiting_.push_back({id, job, std::exchange(call, nullptr)});
  }
  call != nullptr ? call() : GivePlaces();
}

// Gives free places to those that wait, and lets go of those that wait for nothing any more.
void IngestRegistry::GivePlaces() {
  std::vector<std::function<void()>> ready;
  {
    MutexLock lock(mutex_);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const auto found = entries_.find(it->id);
      const bool waits = found != entries_.end() && found->second.job == it->job &&
                         !found->second.closing && !it->job->failed();
      if (waits && !CheckPlaces(found->second.peer).ok()) {
        ++it;
        continue;
      }
      if (waits) found->second.has_place = true;
      ready.push_back(std::move(it->call));
      it = waiting_.erase(it);
    }
  }
  for (const auto& call : ready) call();
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
  GivePlaces();
}

absl::StatusOr<std::unique_ptr<IngestStream>> IngestRegistry::Begin(AskedIngest asked) {
  if (asked.replacement.has_value() && asked.replacement->appends) {
    absl::StatusOr<Pin> pinned = mounts_.PinDocument(asked.id);
    if (!pinned.ok() && !absl::IsNotFound(pinned.status())) return pinned.status();
    if (pinned.ok()) asked.appends_to = *std::move(pinned);
  }
  return Open(asked);
}

absl::StatusOr<IngestQuota> IngestRegistry::QuotaOf(const AskedIngest& asked) const {
  if (asked.refreshes != nullptr) {
    return IngestQuota{asked.origin.account, std::numeric_limits<int64_t>::max()};
  }
  return CheckQuota(asked.origin.account, context_.catalog, context_.writer, OpenIds(), asked.id);
}

absl::StatusOr<std::unique_ptr<IngestStream>> IngestRegistry::Open(const AskedIngest& asked) {
  const std::string& id = asked.id;
  if (!asked.from_tokens && context_.model.tokenizer() == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "document \"", id, "\": the model has no tokenizer: only token input is possible"));
  }
  const MemoryScope scope(MemoryScope::kTake);  // an id that is reserved is forgotten again
  CloseFailed(id);
  RETURN_IF_ERROR(Reserve(asked));
  const absl::StatusOr<IngestQuota> quota =
      OrExhausted("an ingest", [&] { return QuotaOf(asked); });
  if (!quota.ok()) {
    Forget(id);
    return quota.status();
  }
  const absl::StatusOr<store::IngestProgress> progress =
      OrExhausted("an ingest", [&] { return BeginInStore(context_, asked); });
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
    if (closed_) return ShuttingDown();
    entries_[id].job = *job;
    entries_[id].begins_anew = asked.replacement.has_value();
  }
  changed_.notify_all();
  scheduler_.AddIngest(*job);
  std::shared_ptr<IngestStream> stream = *job;
  std::function<void()> begin = [] {};
  if (asked.appends_to != nullptr) {
    auto append = std::make_shared<AppendStream>(context_, asked.appends_to, *job);
    begin = [append, offset = progress->input_offset] { append->Replay(offset); };
    stream = std::move(append);
  }
  LatePlace late;
  if (asked.place == IngestPlace::kAtOnce) {
    begin();
  } else {
    late = LatePlaceOf(id, *job, std::move(begin));
  }
  return HoldStream(
      std::move(stream),
      [self = shared_from_this(), id, job = *job](const absl::Status& status) {
        job->Fail(status);
        self->Close(id, job);
      },
      std::move(late));
}

// The first call that has a place runs `begin` before it.
LatePlace IngestRegistry::LatePlaceOf(const std::string& id, std::shared_ptr<IngestJob> job,
                                      std::function<void()> begin) {
  const std::weak_ptr<IngestRegistry> weak = weak_from_this();
  const auto with_place = [weak, id, job = std::move(job),
                           begin = std::move(begin)](std::function<void()> call) mutable {
    const std::function<void()> once = std::exchange(begin, nullptr);
    auto begun = [once, call = std::move(call)] {
      if (once != nullptr) once();
      call();
    };
    const auto self = weak.lock();
    self != nullptr ? self->WithPlace(id, job, std::move(begun)) : begun();
  };
  return {with_place, [weak] {
            if (const auto self = weak.lock()) self->GivePlaces();
          }};
}

absl::StatusOr<std::unique_ptr<IngestStream>> IngestRegistry::BeginCheck(const AskedIngest& asked) {
  const std::string& id = asked.id;
  absl::StatusOr<Pin> pinned = mounts_.PinDocument(id);
  // Deleted meanwhile: what is sent now is new.
  if (absl::IsNotFound(pinned.status())) return absl::AbortedError(kDeleted);
  ASSIGN_OR_RETURN(Pin pin, std::move(pinned));
  RETURN_IF_ERROR(CheckComparable(context_, pin->info(), asked.pattern));
  auto check =
      std::make_shared<ReingestCheck>(context_, std::move(pin), asked.from_tokens, asked.metadata);
  MutexLock lock(mutex_);
  if (closed_) return ShuttingDown();
  std::erase_if(checks_, [](const auto& entry) { return entry.expired(); });
  checks_.push_back(check);
  return HoldStream(check, [check](const absl::Status& status) { check->Close(status); });
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
          self->context_.writer.LeaveIngest(unfinished->owner());
        }
        self->Forget(id);
      });
}

// What has nothing to resume is not worth keeping: it would be listed for ever, and refuse input of
// another kind. Nobody waits for it, and one that stays can be deleted.
void IngestRegistry::DropRecord(const std::string& id) {
  context_.writer.AbandonIngest(id).IgnoreError();
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
    if (closed_) return ShuttingDown();
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
    const absl::Status abandoned = context_.writer.AbandonIngest(id);
    Forget(id);
    result->set_value(abandoned);
  });
  return posted ? status.get() : ShuttingDown();
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
  GivePlaces();  // which meet the error
}

}  // namespace recollect::engine
