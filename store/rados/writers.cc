// Who writes what: the lock of a head object keeps others away while its holder lives, the epoch
// keeps out a writer that lost the lock without knowing. The catalog names the epoch too, so that
// such a writer can not publish either.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/io/log.h"
#include "base/status.h"
#include "store/format.h"
#include "store/rados/store_impl.h"
#include "store/store_errors.h"

namespace recollect::store::rados {
namespace {

constexpr int kTries = 20;  // each lost one means that another server has changed the same entry

absl::Status Busy(const std::string& id) {
  return absl::AbortedError(
      absl::StrCat(DocumentName(id), ": its entry in the catalog changes all the time"));
}

absl::Status WrittenBy(const std::string& id, const Holders& holders) {
  return absl::AbortedError(absl::StrCat("another server is writing ", DocumentName(id), ": ",
                                         absl::StrJoin(holders, ", ")));
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> RadosStore::CatalogEntries(
    const std::string& id) {
  auto found =
      pool_->Get(kCatalogObject, {DocumentKey(id), IngestKey(id), WriterKey(id)}, DocumentName(id));
  if (absl::IsNotFound(found.status())) return std::map<std::string, std::string>();
  return found;
}

std::shared_ptr<RadosStore::Ingest> RadosStore::Held(OwnerId owner) {
  MutexLock lock(mutex_);
  const auto found = ingests_.find(owner);
  return found == ingests_.end() ? nullptr : found->second;
}

void RadosStore::Keep(OwnerId owner, std::shared_ptr<Ingest> ingest) {
  MutexLock lock(mutex_);
  ingests_[owner] = std::move(ingest);
}

void RadosStore::LetGo(OwnerId owner) {
  {
    MutexLock lock(mutex_);
    ingests_.erase(owner);
  }
  leases_.Drop(HeadName(owner), kWriterLock);
}

absl::StatusOr<std::shared_ptr<RadosStore::Ingest>> RadosStore::TakeOver(const IngestState& begun,
                                                                         uint64_t epoch) {
  const std::string& id = begun.progress.id;
  const OwnerId owner = begun.progress.owner;
  const std::string head_name = HeadName(owner);
  const std::string what = IngestName(id);
  const absl::Status locked = leases_.Take(head_name, kWriterLock, /*shared=*/false);
  if (absl::IsAborted(locked)) {
    ASSIGN_OR_RETURN(const Holders holders, pool_->LockHolders(head_name, kWriterLock));
    return WrittenBy(id, holders);
  }
  RETURN_IF_ERROR(locked);
  const auto take = [&]() -> absl::StatusOr<std::shared_ptr<Ingest>> {
    const absl::Status raised =
        ChangeCatalog({.expect = {{WriterKey(id), WriterValue(owner, epoch)}},
                       .set = {{WriterKey(id), WriterValue(owner, epoch + 1)}}},
                      what);
    if (absl::IsAborted(raised)) {
      // The lock may have made the head of an owner that was freed.
      pool_->Apply(head_name, {.expect = {{kEpochKey, ""}}, .remove_object = true}, what)
          .IgnoreError();
      return absl::CancelledError("the catalog has changed");
    }
    RETURN_IF_ERROR(raised);
    ASSIGN_OR_RETURN(const Head head, ReadHead(*pool_, owner));
    const IngestState& state = head.committed ? head.state : begun;
    Change fence{.expect = {{kEpochKey, head.epoch}, {kRemovedKey, ""}},
                 .set = {{kEpochKey, absl::StrCat(epoch + 1)}},
                 // The catalog says that it was not published.
                 .remove = {kFinalKey, kFinalCursorKey}};
    if (!head.committed) {
      fence.set[kProgressKey] = EncodeIngest(kProgressKey, state);
      fence.set[kCursorKey] = EncodeCursor(kCursorKey, head.cursor);
    }
    RETURN_IF_ERROR(pool_->Apply(head_name, fence, what));
    // Read after the fence: the writer before may have committed until then.
    ASSIGN_OR_RETURN(const Head now, ReadHead(*pool_, owner));
    ASSIGN_OR_RETURN(auto layout, ReadLayout(*pool_, owner, now.cursor,
                                             Sizes(now.state.progress, now.cursor.state_epoch)));
    auto ingest = std::make_shared<Ingest>(std::move(layout));
    MutexLock lock(ingest->mutex);
    ingest->state = now.state;
    ingest->cursor = now.cursor;
    ingest->epoch = epoch + 1;
    Keep(owner, ingest);
    return ingest;
  };
  auto taken = take();
  if (!taken.ok()) leases_.Drop(head_name, kWriterLock);
  return taken;
}

absl::StatusOr<DocumentInfo> RadosStore::DocumentIn(
    const std::map<std::string, std::string>& entries, const std::string& id) {
  const auto found = entries.find(DocumentKey(id));
  if (found == entries.end()) return NoDocument(id);
  return DecodeDocument(found->first, found->second, DocumentName(id));
}

absl::StatusOr<IngestProgress> RadosStore::Begin(const IngestProgress& asked) {
  const std::string& id = asked.id;
  const std::string key = IngestKey(id);
  const std::string what = IngestName(id);
  for (int i = 0; i < kTries; ++i) {
    ASSIGN_OR_RETURN(auto entries, CatalogEntries(id));
    RETURN_IF_ERROR(CheckBegins(DocumentIn(entries, id), asked));
    IngestState begun;
    uint64_t epoch = 0;
    if (entries.contains(key)) {
      OwnerId owner{};
      ASSIGN_OR_RETURN(begun, DecodeIngest(key, entries[key], what));
      if (!ParseWriter(entries[WriterKey(id)], &owner, &epoch) || owner != begun.progress.owner)
        return absl::DataLossError(absl::StrCat(what, ": no entry of its writer"));
      RETURN_IF_ERROR(CheckResumable(begun.progress, asked));
    } else {
      IngestProgress& progress = begun.progress;
      progress = asked;
      ASSIGN_OR_RETURN(progress.owner, NewOwner());
      const std::string document = entries[DocumentKey(id)];  // of a refresh; otherwise none
      const absl::Status made =
          ChangeCatalog({.expect = {{DocumentKey(id), document}, {key, ""}, {WriterKey(id), ""}},
                         .set = {{key, EncodeIngest(key, begun)},
                                 {WriterKey(id), WriterValue(progress.owner, epoch)}}},
                        what);
      if (absl::IsAborted(made)) continue;
      RETURN_IF_ERROR(made);
    }
    const OwnerId owner = begun.progress.owner;
    std::shared_ptr<Ingest> ingest = Held(owner);
    const bool usable = ingest != nullptr && [&] {
      MutexLock lock(ingest->mutex);
      return !ingest->lost && !ingest->done && ingest->epoch == epoch;
    }();
    if (!usable) {
      auto taken = TakeOver(begun, epoch);
      if (absl::IsCancelled(taken.status())) continue;
      // A full pool takes changes of the catalog and no new object: of an ingest that could not
      // begin nothing stays.
      if (absl::IsResourceExhausted(taken.status()) && !entries.contains(key)) {
        ChangeCatalog({.expect = {{WriterKey(id), WriterValue(owner, epoch)}},
                       .remove = {key, WriterKey(id)}},
                      what)
            .IgnoreError();
      }
      RETURN_IF_ERROR(taken.status());
      ingest = *std::move(taken);
    }
    MutexLock lock(ingest->mutex);
    IngestProgress progress = ingest->state.progress;
    if (ingest->cursor.commits == 0) return progress;
    const std::string resume = absl::StrCat("resume state of ingest '", id, "'");
    ASSIGN_OR_RETURN(const std::string record, pool_->ReadAll(HeadName(owner), resume));
    ASSIGN_OR_RETURN(progress.resume_state, DecodeResume(ResumeKey(owner), record, resume));
    return progress;
  }
  return Busy(id);
}

absl::StatusOr<std::shared_ptr<RadosStore::Ingest>> RadosStore::FindIngest(OwnerId owner) {
  if (auto held = Held(owner); held != nullptr) return held;
  const absl::StatusOr<Head> head = ReadHead(*pool_, owner);
  if (absl::IsNotFound(head.status())) return NoIngestOf(owner);
  RETURN_IF_ERROR(head.status());
  const std::string& id = head->state.progress.id;
  ASSIGN_OR_RETURN(auto entries, CatalogEntries(id));
  OwnerId now{};
  uint64_t epoch = 0;
  if (!ParseWriter(entries[WriterKey(id)], &now, &epoch) || now != owner) return NoIngestOf(owner);
  auto taken = TakeOver(head->state, epoch);
  if (absl::IsCancelled(taken.status())) return Busy(id);
  return taken;
}

void RadosStore::LeaveIngest(OwnerId owner) {
  const auto held = Held(owner);
  if (held != nullptr && held->import_record.empty()) LetGo(owner);
}

absl::StatusOr<std::vector<IngestProgress>> RadosStore::ListIngests() {
  std::vector<IngestProgress> out;
  RETURN_IF_ERROR(ScanEntries(*pool_, kIngestPrefix, "", kCatalogPage,
                              [&](const std::string& key, const std::string& value) {
                                const auto state = DecodeIngest(
                                    key, value, IngestName(key.substr(kIngestPrefix.size())));
                                if (state.ok()) {
                                  out.push_back(state->progress);
                                } else {
                                  LogError("{}", std::string(state.status().message()));
                                }
                                return true;
                              }));
  for (IngestProgress& progress : out) {  // how far they are is in their heads
    if (const auto held = Held(progress.owner); held != nullptr) {
      MutexLock lock(held->mutex);
      progress = held->state.progress;
    } else if (const auto head = ReadHead(*pool_, progress.owner); head.ok() && head->committed) {
      progress = head->state.progress;
    }
  }
  return out;
}

absl::Status RadosStore::AbandonIngest(const std::string& id) {
  const std::string key = IngestKey(id), writer_key = WriterKey(id);
  const std::string what = IngestName(id);
  for (int i = 0; i < kTries; ++i) {
    ASSIGN_OR_RETURN(auto entries, CatalogEntries(id));
    OwnerId owner{};
    uint64_t epoch = 0;
    if (!ParseWriter(entries[writer_key], &owner, &epoch)) return NoIngest(id);
    const auto held = Held(owner);
    bool ours = false;
    if (held != nullptr) {
      MutexLock lock(held->mutex);  // after a commit that is being written
      if (held->done) return NoIngest(id);
      ours = !held->lost && held->epoch == epoch;
    }
    if (held != nullptr && !ours) {
      // Whoever asks may only know what this process wrote, and not what another has since.
      LetGo(owner);
      return absl::AbortedError(
          absl::StrCat(what, " was taken over by another server, or a commit of it failed"));
    }
    if (!ours) {
      ASSIGN_OR_RETURN(const Holders holders, pool_->LockHolders(HeadName(owner), kWriterLock));
      if (!holders.empty()) return WrittenBy(id, holders);
    }
    DocumentInfo info;
    info.id = id;
    info.owner = owner;
    const auto state = DecodeIngest(key, entries[key], what);
    if (state.ok()) info = MakeDocument(*state);
    const std::string removed = RemovedKey(owner);
    const absl::Status changed = ChangeCatalog({.expect = {{writer_key, entries[writer_key]}},
                                                .set = {{removed, EncodeRemoved(removed, info)}},
                                                .remove = {key, writer_key}},
                                               what);
    if (absl::IsAborted(changed)) continue;
    RETURN_IF_ERROR(changed);
    if (held != nullptr) {
      MutexLock lock(held->mutex);
      held->done = true;
    }
    LetGo(owner);
    return Free(owner);
  }
  return Busy(id);
}

// The head and its lock come first, so that nobody takes the entry in the catalog for that of a
// document that was removed.
absl::StatusOr<OwnerId> RadosStore::BeginImport(const DocumentInfo& document) {
  const std::string& id = document.id;
  RETURN_IF_ERROR(CheckDocumentId(id));
  ASSIGN_OR_RETURN(const auto entries, CatalogEntries(id));
  if (entries.contains(DocumentKey(id))) return Exists(id);
  if (!entries.empty()) return IsBeingIngested(id);
  IngestState state;
  IngestProgress& progress = state.progress;
  progress = AskedIngest(id, document.fingerprint, document.from_tokens, document.pattern);
  ASSIGN_OR_RETURN(progress.owner, NewOwner());
  const OwnerId owner = progress.owner;
  auto import = std::make_shared<Ingest>(std::make_shared<Layout>(owner));
  import->layout->Add({}, Sizes(progress, 0));
  import->epoch = 1;
  const std::string removed = RemovedKey(owner), what = absl::StrCat("import of '", id, "'");
  import->import_record = EncodeRemoved(removed, MakeDocument(state));
  RETURN_IF_ERROR(leases_.Take(HeadName(owner), kWriterLock, /*shared=*/false));
  const Change head{.set = {{kEpochKey, absl::StrCat(import->epoch)},
                            {kProgressKey, EncodeIngest(kProgressKey, state)},
                            {kCursorKey, EncodeCursor(kCursorKey, {})}}};
  absl::Status made = pool_->Apply(HeadName(owner), head, what);
  if (made.ok()) made = ChangeCatalog({.set = {{removed, import->import_record}}}, what);
  if (!made.ok()) {
    leases_.Drop(HeadName(owner), kWriterLock);
    return made;
  }
  {
    MutexLock lock(import->mutex);
    import->state = state;
  }
  Keep(owner, std::move(import));
  return owner;
}

absl::Status RadosStore::AbandonImport(OwnerId owner) {
  const auto import = Held(owner);
  if (import == nullptr || import->import_record.empty()) return ImportHasEnded();
  {
    MutexLock lock(import->mutex);
    if (import->done) return ImportHasEnded();
    import->done = true;
  }
  LetGo(owner);
  return Free(owner);
}

}  // namespace recollect::store::rados
