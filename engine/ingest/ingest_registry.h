// The running ingests, at most one for each id, from the start of the stream to the last work that
// threads do for it.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "engine/ingest/held_streams.h"
#include "engine/ingest/ingest.h"
#include "engine/ingest/ingest_begin.h"
#include "engine/ingest/reingest.h"
#include "engine/session/mounts.h"
#include "engine/step/scheduler.h"
#include "engine/streams.h"

namespace recollect::engine {

// Thread-safe. Streams may outlive it.
class IngestRegistry : public std::enable_shared_from_this<IngestRegistry> {
  struct Import {
    std::string peer;
    std::string id;  // empty: not known yet
  };

 public:
  IngestRegistry(const IngestContext& context, Scheduler& scheduler, Mounts& mounts)
      : context_(context), scheduler_(scheduler), mounts_(mounts) {}

  // Like Engine::BeginIngest; fills in AskedIngest::appends_to. Waits for an earlier stream of the
  // id that is ending. A stream that has failed counts as ended even if its caller still holds it.
  // A document that is read again (AskedIngest::refreshes) is not counted again; an unfinished
  // refresh for another model, or an unfinished replacement, is forgotten. NOT_FOUND: it no longer
  // exists.
  absl::StatusOr<std::unique_ptr<IngestStream>> Begin(AskedIngest asked);

  // Holds a place among the ingests for a document that is imported from a file, until destroyed.
  class ImportHold {
   public:
    ImportHold(std::shared_ptr<IngestRegistry> registry, std::list<Import>::iterator import,
               std::shared_ptr<access::Account> account)
        : registry_(std::move(registry)), import_(import), account_(std::move(account)) {}
    ~ImportHold();
    ImportHold(const ImportHold&) = delete;
    ImportHold& operator=(const ImportHold&) = delete;
    // Prevents ingests and other imports from writing `id`, a document with `bytes` bytes of text.
    // ABORTED: one of them writes it already. RESOURCE_EXHAUSTED: the account has no room for it.
    // Must be called once, before anything is written.
    absl::Status Take(const std::string& id, int64_t bytes);
    // Must be called when the document is published.
    void Published(const std::string& id) { registry_->context_.published(id, OwnerId{}); }

   private:
    const std::shared_ptr<IngestRegistry> registry_;
    const std::list<Import>::iterator import_;
    const std::shared_ptr<access::Account> account_;  // null: nothing is counted
  };
  using ImportPlace = std::unique_ptr<ImportHold>;
  // RESOURCE_EXHAUSTED: as for ingests.
  absl::StatusOr<ImportPlace> ReserveImport(const Origin& origin);

  // Ends the stream that writes `id`, if there is one, and forgets the unfinished ingest.
  // NOT_FOUND. Blocks.
  absl::Status Abandon(const std::string& id);

  int64_t size() const;  // open streams

  // Commits what is encoded and fails all streams, now and later. The scheduler must have stopped.
  // Blocks.
  void Shutdown(const absl::Status& status);

 private:
  struct Entry {
    std::string peer;
    std::shared_ptr<IngestJob> job;  // null while it is being made
    bool begins_anew = false;        // a replacement: nothing of it is kept for a later stream
    bool closing = false;            // a closure on the ingest thread will erase it
    bool has_place = true;           // counts among the open ingests
  };
  struct Waiting {
    std::string id;
    std::shared_ptr<IngestJob> job;
    std::function<void()> call;
  };

  absl::StatusOr<IngestQuota> QuotaOf(const AskedIngest& asked) const;
  absl::StatusOr<std::unique_ptr<IngestStream>> Open(const AskedIngest& asked);

  absl::Status CheckPlaces(const std::string& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckNotWritten(const std::string& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseFailed(const std::string& id);
  absl::Status Reserve(const AskedIngest& asked);
  LatePlace LatePlaceOf(const std::string& id, std::shared_ptr<IngestJob> job,
                        std::function<void()> begin);
  void WithPlace(const std::string& id, const std::shared_ptr<IngestJob>& job,
                 std::function<void()> call);
  void GivePlaces();
  std::vector<std::string> OpenIds() const;
  void Forget(const std::string& id);
  void DropRecord(const std::string& id);
  absl::StatusOr<std::unique_ptr<IngestStream>> BeginCheck(const AskedIngest& asked);
  void Close(const std::string& id, const std::shared_ptr<IngestJob>& job);

  const IngestContext context_;
  Scheduler& scheduler_;
  Mounts& mounts_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::list<Import> imports_ ABSL_GUARDED_BY(mutex_);
  std::list<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);  // for a place, the first first
  std::vector<std::weak_ptr<ReingestCheck>> checks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::engine
