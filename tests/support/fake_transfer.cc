// Documents of the fake engine to and from files, in the real format, and its backups.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "engine/ingest/ingest_quota.h"
#include "engine/step/limits.h"
#include "model/text/tokenizer.h"
#include "store/document_transfer.h"
#include "tests/support/fake_engine.h"

namespace recollect {
namespace {

class FakeExport final : public engine::ExportStream {
 public:
  FakeExport(store::DocumentReader& store, const store::DocumentInfo& info)
      : export_(store, info, /*key_width=*/1) {}
  const store::DocumentInfo& document() const override { return export_.document(); }
  absl::StatusOr<std::string> Next() override { return export_.Next(); }

 private:
  store::DocumentExport export_;
};

}  // namespace

class FakeEngine::Import final : public engine::ImportStream {
 public:
  Import(FakeEngine& engine, const std::string& id, std::shared_ptr<access::Account> account,
         engine::IdCheck may_have)
      : engine_(engine),
        import_(*engine.store_,
                {.fingerprint = "fake",
                 .width = 1,
                 .key_width = 1,
                 .vocab_size = 256,
                 .chunk_tokens = 1,
                 .find_invalid_utf8 = model::FindInvalidUtf8},
                id,
                [&engine, account = std::move(account),
                 may_have = std::move(may_have)](const store::DocumentInfo& document) {
                  if (may_have != nullptr) RETURN_IF_ERROR(may_have(document.id));
                  RETURN_IF_ERROR(engine::CheckNewDocumentId(document.id));
                  return engine.CheckImport(account, document);
                }) {}
  ~Import() override {
    std::lock_guard lock(engine_.mutex_);
    --engine_.seen_.imports;
    engine_.changed_.notify_all();
  }
  absl::Status Append(absl::string_view bytes) override { return import_.Append(bytes); }
  absl::StatusOr<store::DocumentInfo> Finish() override { return import_.Finish(); }

 private:
  FakeEngine& engine_;
  store::DocumentImport import_;
};

absl::Status FakeEngine::CheckImport(const std::shared_ptr<access::Account>& account,
                                     const store::DocumentInfo& document) {
  std::vector<std::string> open;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, writer] : writers_) open.push_back(id);
  }
  ASSIGN_OR_RETURN(const engine::IngestQuota quota,
                   engine::CheckQuota(account, *store_, *store_, open, document.id));
  return account == nullptr ? absl::OkStatus() : account->CheckBytes(document.bytes, quota.bytes);
}

std::shared_ptr<engine::RequestHandle> FakeEngine::RefreshDocument(
    const std::string& id, const engine::Origin& origin,
    std::function<void(const engine::IngestStatus&)> progress,
    std::function<void(absl::StatusOr<store::DocumentInfo>)> done) {
  const auto told = [progress = std::move(progress),
                     done = std::move(done)](const absl::StatusOr<store::DocumentInfo>& info) {
    engine::IngestStatus status;
    if (info.ok()) status.bytes = info->bytes;
    if (info.ok() && progress != nullptr) progress(status);
    done(info);
  };
  Reply<store::DocumentInfo>(told, [&]() -> absl::StatusOr<store::DocumentInfo> {
    RETURN_IF_ERROR(RefusalLocked());
    seen_.peer = origin.peer;
    seen_.refreshed.push_back(id);
    changed_.notify_all();
    if (writers_.contains(id)) {
      return absl::AbortedError(absl::StrCat("another stream writes '", id, "'"));
    }
    ASSIGN_OR_RETURN(const store::DocumentInfo info, store_->Get(id));
    if (info.from_tokens) {
      return absl::FailedPreconditionError(
          absl::StrCat("document '", id, "' was ingested as token ids"));
    }
    if (deletes_during_refresh) store_->Remove(id).IgnoreError();
    if (store_->Get(id).ok()) return info;
    return absl::AbortedError(absl::StrCat("document '", id, "' was deleted meanwhile"));
  });
  return nullptr;
}

absl::StatusOr<std::unique_ptr<engine::ExportStream>> FakeEngine::ExportDocument(
    const std::string& id) {
  ASSIGN_OR_RETURN(const store::DocumentInfo info, GetDocument(id));
  return std::make_unique<FakeExport>(*store_, info);
}

absl::StatusOr<std::unique_ptr<engine::ImportStream>> FakeEngine::ImportDocument(
    const std::string& id, const engine::Origin& origin, engine::IdCheck may_have) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(RefusalLocked());
  if (!id.empty()) RETURN_IF_ERROR(engine::CheckNewDocumentId(id));
  seen_.peer = origin.peer;
  ++seen_.imports;
  changed_.notify_all();
  return std::make_unique<Import>(*this, id, origin.account, std::move(may_have));
}

absl::StatusOr<store::BackupInfo> FakeEngine::CreateBackup(const std::string& directory,
                                                           uint32_t keep) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(RefusalLocked());
  seen_.backup_dir = directory;
  std::vector<store::BackupInfo>& all = seen_.backups;
  const uint32_t number = all.empty() ? 1 : all.back().number + 1;
  all.push_back(
      {.number = number, .created_unix_s = 1000, .bytes = 10, .files = 2, .documents = 3});
  if (keep > 0 && all.size() > keep) all.erase(all.begin(), all.end() - keep);
  return all.back();
}

absl::StatusOr<std::vector<store::BackupInfo>> FakeEngine::ListBackups(
    const std::string& directory) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(RefusalLocked());
  if (seen_.backups.empty()) {
    return absl::NotFoundError(absl::StrCat("backup directory ", directory, ": has no backups"));
  }
  return seen_.backups;
}

}  // namespace recollect
