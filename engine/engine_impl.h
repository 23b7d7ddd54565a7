// The engine's implementation. engine.cc has sessions, start and stop; engine_documents.cc has
// documents; engine_requests.cc brings a request from the caller to the scheduler.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/sync/executor.h"
#include "base/sync/mutex.h"
#include "engine/backend/loaded_model.h"
#include "engine/counters.h"
#include "engine/engine.h"
#include "engine/ingest/ingest_registry.h"
#include "engine/ingest/refresh.h"
#include "engine/save_text.h"
#include "engine/session/landmark_indexes.h"
#include "engine/session/mounts.h"
#include "engine/session/prompt_cache.h"
#include "engine/session/session_table.h"
#include "engine/session/tiers.h"
#include "engine/step/request.h"
#include "engine/step/scheduler.h"

namespace recollect::engine {

class EngineImpl final : public Engine {
 public:
  // REQUIRES: options are valid.
  EngineImpl(const EngineOptions& options, LoadedModel model,
             std::unique_ptr<store::DocumentStore> store);
  ~EngineImpl() override;

  const model::Model& model() const override { return *model_; }
  EngineStats stats() const override;
  absl::Status health() const override;
  absl::StatusOr<std::unique_ptr<IngestStream>> BeginIngest(
      const std::string& id, bool from_tokens, const SessionOptions& session,
      const Origin& origin = {}, const std::optional<Replacement>& replacement = {},
      const std::optional<std::string>& metadata = {}) override;
  absl::StatusOr<store::DocumentInfo> GetDocument(const std::string& id) override;
  absl::StatusOr<std::vector<store::DocumentInfo>> ListDocuments(
      const std::string& after, int64_t limit, const DocumentSelection& selection = {}) override;
  absl::StatusOr<std::vector<store::IngestProgress>> ListIngests() override;
  absl::StatusOr<store::DocumentInfo> SetMetadata(const std::string& id,
                                                  const std::string& metadata,
                                                  MetadataChange change) override;
  absl::Status DeleteDocument(const std::string& id) override;
  absl::StatusOr<std::string> ReadText(const std::string& id, int64_t begin, int64_t end) override;
  std::shared_ptr<RequestHandle> RefreshDocument(
      const std::string& id, const Origin& origin,
      std::function<void(const IngestStatus&)> progress,
      std::function<void(absl::StatusOr<store::DocumentInfo>)> done) override;
  absl::StatusOr<std::unique_ptr<ExportStream>> ExportDocument(const std::string& id) override;
  absl::StatusOr<std::unique_ptr<ImportStream>> ImportDocument(const std::string& id,
                                                               const Origin& origin = {},
                                                               IdCheck may_have = nullptr) override;
  absl::StatusOr<store::BackupInfo> CreateBackup(const std::string& directory,
                                                 uint32_t keep) override {
    return store_->Backup(directory, keep);
  }
  absl::StatusOr<std::vector<store::BackupInfo>> ListBackups(
      const std::string& directory) override {
    return store_->ListBackups(directory);
  }
  absl::StatusOr<SessionId> OpenSession(const SessionOptions& options,
                                        const Origin& origin = {}) override;
  absl::StatusOr<SessionInfo> GetSession(SessionId id) override;
  absl::Status CloseSession(SessionId id) override;
  std::shared_ptr<RequestHandle> SaveSession(
      SessionId session, const SaveAs& as, const Origin& origin,
      std::function<void(absl::StatusOr<store::DocumentInfo>)> done) override;
  std::shared_ptr<RequestHandle> Generate(GenerateRequest request,
                                          std::shared_ptr<GenerateEvents> events) override;
  std::shared_ptr<RequestHandle> Score(
      ScoreRequest request, std::function<void(absl::StatusOr<ScoreResult>)> done) override;
  std::shared_ptr<RequestHandle> Retrieve(
      RetrieveRequest request,
      std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done) override;
  std::shared_ptr<RequestHandle> Embed(
      EmbedRequest request, std::function<void(absl::StatusOr<Embedding>)> done) override;
  void Shutdown(absl::Time deadline) override;

  Scheduler& scheduler_for_test() { return scheduler_; }
  ChunkTiers& tiers_for_test() { return tiers_; }
  LandmarkIndexes& indexes_for_test() { return indexes_; }

 private:
  // Admits a request. `checked`: the result of CheckRequest. `session`: the open session to use;
  // none: the request gets its own session, which counts for the account, too. `last`: what else
  // has to be OK before it runs; may block on the disk.
  std::shared_ptr<RequestHandle> Submit(const absl::Status& checked,
                                        std::optional<SessionId> session,
                                        const std::shared_ptr<Request>& request,
                                        std::function<absl::Status()> last = nullptr);
  absl::StatusOr<Request::QueueSlot> TakeQueueSlot();
  // Prepares a request. Returns whether that has answered it, without a step of the layers.
  absl::StatusOr<bool> Prepare(Request& request);

  // Returns the source of a request's prompt, from its open session or else from its options.
  absl::StatusOr<PromptSource> SourceOf(const Request& request);
  // Returns a new session or a kept one that has read a part of `beginning`, the request's first
  // tokens. After its use it is kept for later requests of `account` in the families that can
  // rewind (prompt_cache.h).
  absl::StatusOr<SessionLease> BorrowSession(const SessionOptions& options,
                                             std::span<const int32_t> beginning,
                                             const std::shared_ptr<access::Account>& account);
  // Returns the keys that a session with these mounts needs.
  Mounts::Need NeedOf(const SessionOptions& options) const;
  absl::StatusOr<std::unique_ptr<Session>> MakeSession(const SessionOptions& options,
                                                       const model::LocalPatterns& pattern);
  // Returns null if the document is this model's already.
  absl::StatusOr<std::shared_ptr<Refresh>> MakeRefresh(const std::string& id, const Origin& origin,
                                                       Refresh::Work work);
  absl::Status AbandonRefresh(const std::string& id);
  absl::StatusOr<std::unique_ptr<IngestStream>> BeginIngestAt(
      IngestPlace place, const std::string& id, bool from_tokens, const SessionOptions& session,
      const Origin& origin, const std::optional<Replacement>& replacement,
      const std::optional<std::string>& metadata);
  TextSave::BeginStream BeginSave();
  absl::StatusOr<std::string> TextOf(SessionId session);
  void DocumentPublished(const std::string& id, OwnerId replaced);
  absl::Status MountPrefix(const store::DocumentInfo& info, const model::LocalPatterns& pattern,
                           Session& session);
  void RunInBackground(const std::function<void()>& work);
  absl::Duration SweepPeriod() const;

  const EngineOptions options_;
  const std::shared_ptr<const model::Model> model_;
  const std::unique_ptr<store::DocumentStore> store_;
  Counters counters_;
  const std::shared_ptr<Backend> backend_;
  Executor fetchers_;    // reads of chunks, which streams wait for
  Executor background_;  // preparing requests, mounting, freeing
  const std::shared_ptr<Executor> ingest_thread_;
  ChunkTiers tiers_;
  const std::shared_ptr<LandmarkIndex> landmarks_;
  const std::shared_ptr<ThreadPool> threads_;        // may be null
  const std::unique_ptr<const TextKeys> text_keys_;  // null: documents are not kept as text
  const std::shared_ptr<Mounts> mounts_;
  LandmarkIndexes indexes_;
  SessionTable sessions_;
  PromptCache prompts_;
  Scheduler scheduler_;
  const std::shared_ptr<IngestRegistry> ingests_;

  std::atomic<bool> draining_{false};  // no new requests are accepted
  std::atomic<bool> failing_{false};   // accepted requests fail
  Mutex idle_mutex_;
  std::condition_variable idle_;
  std::atomic<int64_t> outstanding_{
      0};  // requests accepted and not ended; changed under idle_mutex_
  Mutex shutdown_mutex_;
  bool stopped_ ABSL_GUARDED_BY(shutdown_mutex_) = false;
};

}  // namespace recollect::engine
