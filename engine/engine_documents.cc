#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/engine_impl.h"
#include "engine/ingest/transfer.h"
#include "engine/save_text.h"
#include "engine/step/limits.h"
#include "engine/step/prepare.h"
#include "store/metadata.h"
#include "store/metadata_filter.h"

namespace recollect::engine {
absl::StatusOr<std::unique_ptr<IngestStream>> EngineImpl::BeginIngest(
    const std::string& id, bool from_tokens, const SessionOptions& session, const Origin& origin,
    const std::optional<Replacement>& replacement, const std::optional<std::string>& metadata) {
  return BeginIngestAt(IngestPlace::kAtOnce, id, from_tokens, session, origin, replacement,
                       metadata);
}

// An answer may take long, and until it is there nothing is written.
TextSave::BeginStream EngineImpl::BeginSave() {
  return [this](const std::string& id, const Origin& origin,
                const std::optional<Replacement>& replacement) {
    return BeginIngestAt(IngestPlace::kWhenWritten, id, /*from_tokens=*/false, {}, origin,
                         replacement, std::nullopt);
  };
}

absl::StatusOr<std::unique_ptr<IngestStream>> EngineImpl::BeginIngestAt(
    IngestPlace place, const std::string& id, bool from_tokens, const SessionOptions& session,
    const Origin& origin, const std::optional<Replacement>& replacement,
    const std::optional<std::string>& metadata) {
  if (draining_) return ShuttingDown();
  RETURN_IF_ERROR(CheckNewDocumentId(id));
  RETURN_IF_ERROR(CheckSession(session));
  std::optional<std::string> described;
  if (metadata.has_value()) {
    ASSIGN_OR_RETURN(described, store::ReadMetadata(*metadata));
  }
  RETURN_IF_ERROR(scheduler_.CheckRoom());
  ASSIGN_OR_RETURN(const model::LocalPatterns pattern, IngestPatterns(*model_, session));
  return ingests_->Begin({.id = id,
                          .from_tokens = from_tokens,
                          .pattern = pattern,
                          .origin = origin,
                          .replacement = replacement,
                          .metadata = std::move(described),
                          .place = place});
}

absl::StatusOr<store::DocumentInfo> EngineImpl::GetDocument(const std::string& id) {
  RETURN_IF_ERROR(CheckDocumentId(id));
  absl::StatusOr<store::DocumentInfo> info = store_->Get(id);
  counters_.CountError(info.status());
  return info;
}

absl::StatusOr<std::vector<store::DocumentInfo>> EngineImpl::ListDocuments(
    const std::string& after, int64_t limit, const DocumentSelection& selection) {
  ASSIGN_OR_RETURN(const store::MetadataFilter filter,
                   store::MetadataFilter::Parse(selection.filter, "filter"));
  absl::StatusOr<std::vector<store::DocumentInfo>> page =
      store::ListMatching(*store_, after, limit, selection.beginning, filter);
  counters_.CountError(page.status());
  if (!page.ok()) return page;
  for (const store::DocumentInfo& info : *page) {
    if (!info.damage.empty()) ++counters_.data_loss_errors;
  }
  return page;
}

absl::StatusOr<std::vector<store::IngestProgress>> EngineImpl::ListIngests() {
  return store_->ListIngests();
}

absl::StatusOr<store::DocumentInfo> EngineImpl::SetMetadata(const std::string& id,
                                                            const std::string& metadata,
                                                            MetadataChange change) {
  if (draining_) return ShuttingDown();
  RETURN_IF_ERROR(CheckDocumentId(id));
  const auto changed = [&](const std::string& before) {
    return change == MetadataChange::kPatch ? store::PatchMetadata(before, metadata)
                                            : store::ReadMetadata(metadata);
  };
  absl::StatusOr<store::DocumentInfo> info = store_->ChangeMetadata(id, changed);
  counters_.CountError(info.status());
  return info;
}

absl::Status EngineImpl::DeleteDocument(const std::string& id) {
  if (draining_) return ShuttingDown();
  RETURN_IF_ERROR(CheckDocumentId(id));
  absl::Status removed = mounts_->Remove(id);
  if (removed.ok()) return AbandonRefresh(id);
  if (!absl::IsNotFound(removed)) return removed;
  const absl::Status abandoned = ingests_->Abandon(id);
  // It may have been published in between: abandoning waited for that.
  return absl::IsNotFound(abandoned) ? mounts_->Remove(id) : abandoned;
}

// What is unfinished of a document that is gone is of no use.
absl::Status EngineImpl::AbandonRefresh(const std::string& id) {
  ASSIGN_OR_RETURN(const std::vector<store::IngestProgress> ingests, store_->ListIngests());
  const bool refreshed = std::any_of(ingests.begin(), ingests.end(), [&](const auto& ingest) {
    return ingest.id == id && ingest.replaces != OwnerId{};
  });
  if (!refreshed) return absl::OkStatus();
  const absl::Status abandoned = ingests_->Abandon(id);
  return absl::IsNotFound(abandoned) ? absl::OkStatus() : abandoned;
}

void EngineImpl::DocumentPublished(const std::string& id, OwnerId replaced) {
  if (replaced != OwnerId{}) mounts_->Retire(replaced);
  indexes_.Add(id);
}

absl::StatusOr<std::shared_ptr<Refresh>> EngineImpl::MakeRefresh(const std::string& id,
                                                                 const Origin& origin,
                                                                 Refresh::Work work) {
  if (draining_) return ShuttingDown();
  RETURN_IF_ERROR(CheckDocumentId(id));
  RETURN_IF_ERROR(scheduler_.CheckRoom());
  ASSIGN_OR_RETURN(work.document, mounts_->PinDocument(id));
  if (work.document->info().fingerprint == model_->fingerprint()) return nullptr;
  RETURN_IF_ERROR(CheckRefresh(work.document->info()));
  ASSIGN_OR_RETURN(work.stream, ingests_->Begin({.id = id,
                                                 .pattern = model_->config().local,
                                                 .origin = origin,
                                                 .refreshes = &work.document->info()}));
  return std::make_shared<Refresh>(
      *store_, [this](const std::function<void()>& step) { RunInBackground(step); },
      std::move(work));
}

std::shared_ptr<RequestHandle> EngineImpl::RefreshDocument(
    const std::string& id, const Origin& origin, std::function<void(const IngestStatus&)> progress,
    std::function<void(absl::StatusOr<store::DocumentInfo>)> done) {
  absl::StatusOr<std::shared_ptr<Refresh>> refresh = OrExhausted("a refresh", [&] {
    return MakeRefresh(id, origin, {nullptr, nullptr, std::move(progress), done});
  });
  if (refresh.ok() && *refresh != nullptr) {
    (*refresh)->Start();
    return *std::move(refresh);
  }
  // Never from inside the caller's call.
  RunInBackground([this, id, done = std::move(done), status = refresh.status()] {
    status.ok() ? done(GetDocument(id)) : done(status);
  });
  return nullptr;
}

absl::StatusOr<std::string> EngineImpl::TextOf(SessionId session) {
  if (model_->tokenizer() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("session ", static_cast<uint64_t>(session),
                     ": the model has no tokenizer, so it has no text"));
  }
  ASSIGN_OR_RETURN(const SessionLease lease, sessions_.Acquire(session, [] {}));
  std::string text = lease->text.Get();
  if (!text.empty()) return text;
  return absl::FailedPreconditionError(absl::StrCat("session ", static_cast<uint64_t>(session),
                                                    " has read nothing: there is no text to save"));
}

std::shared_ptr<RequestHandle> EngineImpl::SaveSession(
    SessionId session, const SaveAs& as, const Origin& origin,
    std::function<void(absl::StatusOr<store::DocumentInfo>)> done) {
  std::string text;
  absl::StatusOr<std::shared_ptr<TextSave>> save =
      OrExhausted("saving a session", [&]() -> absl::StatusOr<std::shared_ptr<TextSave>> {
        RETURN_IF_ERROR(CheckNewDocumentId(as.id));
        ASSIGN_OR_RETURN(text, TextOf(session));
        return TextSave::Begin(*this, as, origin, {.text = text, .is_all = true});
      });
  if (save.ok()) {
    (*save)->Write(std::move(text), std::move(done));
    return *std::move(save);
  }
  // Never from inside the caller's call.
  RunInBackground([done = std::move(done), status = save.status()] { done(status); });
  return nullptr;
}

absl::StatusOr<std::string> EngineImpl::ReadText(const std::string& id, int64_t begin,
                                                 int64_t end) {
  RETURN_IF_ERROR(CheckDocumentId(id));
  ASSIGN_OR_RETURN(const Pin pin, mounts_->PinDocument(id));
  absl::StatusOr<std::string> text = store_->ReadText(pin->info().owner, begin, end);
  counters_.CountError(text.status());
  return text;
}

absl::StatusOr<std::unique_ptr<ExportStream>> EngineImpl::ExportDocument(const std::string& id) {
  if (draining_) return ShuttingDown();
  RETURN_IF_ERROR(CheckDocumentId(id));
  ASSIGN_OR_RETURN(Pin pin, mounts_->PinDocument(id));
  return BeginExport(*model_, *store_, *store_, counters_, std::move(pin));
}

absl::StatusOr<std::unique_ptr<ImportStream>> EngineImpl::ImportDocument(const std::string& id,
                                                                         const Origin& origin,
                                                                         IdCheck may_have) {
  if (draining_) return ShuttingDown();
  if (!id.empty()) RETURN_IF_ERROR(CheckNewDocumentId(id));
  ASSIGN_OR_RETURN(IngestRegistry::ImportPlace place, ingests_->ReserveImport(origin));
  return BeginImport(*model_, *store_, id, std::move(may_have), std::move(place));
}

}  // namespace recollect::engine
