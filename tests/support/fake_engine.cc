#include "tests/support/fake_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "engine/save_text.h"
#include "engine/session/mount_names.h"
#include "engine/step/limits.h"
#include "store/metadata.h"
#include "store/metadata_filter.h"

namespace recollect {

void FakeEngine::Set(Script script) {
  std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

FakeEngine::Seen FakeEngine::SeenLocked() const {
  Seen seen = seen_;
  seen.sessions = std::ssize(sessions_);
  seen.ingests = std::ssize(writers_);
  return seen;
}

FakeEngine::Seen FakeEngine::seen() const {
  std::lock_guard lock(mutex_);
  return SeenLocked();
}

void FakeEngine::Await(const std::function<bool(const Seen&)>& condition) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return condition(SeenLocked()); });
}

const model::Model& FakeEngine::model() const {
  RECOLLECT_CHECK(false && "the fake engine has no model");
  return *static_cast<const model::Model*>(nullptr);
}

absl::Status FakeEngine::health() const {
  std::lock_guard lock(mutex_);
  return script_.health;
}

engine::EngineStats FakeEngine::stats() const {
  std::lock_guard lock(mutex_);
  engine::EngineStats stats = script_.stats;
  stats.sessions = std::ssize(sessions_);
  return stats;
}

absl::Status FakeEngine::error() const {
  std::lock_guard lock(mutex_);
  return script_.error;
}

absl::Status FakeEngine::RefusalLocked() const {
  RETURN_IF_ERROR(script_.error);
  return seen_.shut_down ? absl::UnavailableError("the engine is shutting down") : absl::OkStatus();
}

absl::StatusOr<store::DocumentInfo> FakeEngine::GetDocument(const std::string& id) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(engine::CheckDocumentId(id));
  return store_->Get(id);
}

absl::StatusOr<std::vector<store::DocumentInfo>> FakeEngine::ListDocuments(
    const std::string& after, int64_t limit, const engine::DocumentSelection& selection) {
  RETURN_IF_ERROR(error());
  ASSIGN_OR_RETURN(const store::MetadataFilter filter,
                   store::MetadataFilter::Parse(selection.filter, "filter"));
  return store::ListMatching(*store_, after, limit, selection.beginning, filter);
}

absl::StatusOr<store::DocumentInfo> FakeEngine::SetMetadata(const std::string& id,
                                                            const std::string& metadata,
                                                            engine::MetadataChange change) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(engine::CheckDocumentId(id));
  return store_->ChangeMetadata(id, [&](const std::string& before) {
    return change == engine::MetadataChange::kPatch ? store::PatchMetadata(before, metadata)
                                                    : store::ReadMetadata(metadata);
  });
}

absl::StatusOr<std::vector<store::IngestProgress>> FakeEngine::ListIngests() {
  RETURN_IF_ERROR(error());
  return store_->ListIngests();
}

absl::StatusOr<std::string> FakeEngine::ReadText(const std::string& id, int64_t begin,
                                                 int64_t end) {
  ASSIGN_OR_RETURN(const store::DocumentInfo info, GetDocument(id));
  return store_->ReadText(info.owner, begin, end);
}

absl::StatusOr<FakeEngine::Documents> FakeEngine::MountLocked(
    const engine::SessionOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, engine::ExpandMounts(*store_, options));
  Documents documents;
  for (const std::string& id : ids) {
    if (std::count(ids.begin(), ids.end(), id) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("mounts: document '", id, "' is mounted twice"));
    }
    ASSIGN_OR_RETURN(documents.emplace_back(), store_->Get(id));
  }
  return documents;
}

absl::StatusOr<engine::SessionId> FakeEngine::OpenSession(const engine::SessionOptions& options,
                                                          const engine::Origin& origin) {
  RETURN_IF_ERROR(engine::CheckSession(options));
  if (on_open) on_open();
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(RefusalLocked());
  seen_.peer = origin.peer;
  RETURN_IF_ERROR(CheckRoom("sessions", sessions_, max_sessions, origin.peer));
  std::shared_ptr<void> counted;
  if (origin.account != nullptr) {
    ASSIGN_OR_RETURN(counted, origin.account->TakeSession());
  }
  ASSIGN_OR_RETURN(Documents mounts, MountLocked(options));
  const engine::SessionId id{next_session_++};
  sessions_.emplace(
      id, Session{std::move(mounts), origin.peer, origin.owner, std::move(counted), nullptr});
  ++seen_.opened;
  return id;
}

absl::StatusOr<FakeEngine::Session*> FakeEngine::FindLocked(engine::SessionId id) {
  RETURN_IF_ERROR(script_.error);
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) return &found->second;
  return absl::NotFoundError(absl::StrCat("no open session ", static_cast<uint64_t>(id)));
}

absl::StatusOr<engine::SessionInfo> FakeEngine::GetSession(engine::SessionId id) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const Session* const session, FindLocked(id));
  engine::SessionInfo info{
      .id = id, .mounts = {}, .positions = 65, .own_chunks = 1, .owner = session->owner};
  for (const store::DocumentInfo& document : session->mounts) info.mounts.push_back(document.id);
  return info;
}

absl::Status FakeEngine::CloseSession(engine::SessionId id) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const Session* const session, FindLocked(id));
  if (session->running != nullptr) session->running->CancelLocked();
  sessions_.erase(id);
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeEngine::TextOf(engine::SessionId id) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const Session* const session, FindLocked(id));
  if (session->running != nullptr) return absl::AbortedError("another request runs on the session");
  std::string text = session->text.Get();
  if (!text.empty()) return text;
  return absl::FailedPreconditionError("the session has read nothing: there is no text to save");
}

std::shared_ptr<engine::RequestHandle> FakeEngine::SaveSession(
    engine::SessionId session, const engine::SaveAs& as, const engine::Origin& origin,
    std::function<void(absl::StatusOr<store::DocumentInfo>)> done) {
  std::string text;
  const auto begin = [&]() -> absl::StatusOr<std::shared_ptr<engine::TextSave>> {
    RETURN_IF_ERROR(engine::CheckNewDocumentId(as.id));
    ASSIGN_OR_RETURN(text, TextOf(session));
    return engine::TextSave::Begin(*this, as, origin, {.text = text, .is_all = true});
  };
  auto save = begin();
  if (save.ok()) {
    (*save)->Write(std::move(text), std::move(done));
    return *std::move(save);
  }
  Reply(done, [&]() -> absl::StatusOr<store::DocumentInfo> { return save.status(); });
  return nullptr;
}

}  // namespace recollect
