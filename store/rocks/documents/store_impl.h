// The class behind OpenRocksStore, for its own .cc files and its tests.
//
// Five files: rocks_store.cc opens; documents.cc keeps the catalog and sessions' chunks, and frees;
// ingest.cc writes documents, also those made elsewhere; read.cc reads by owner; index.cc keeps
// indexes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "base/sync/thread_pool.h"
#include "store/document_store.h"
#include "store/format.h"
#include "store/ingest_state.h"
#include "store/pieces.h"
#include "store/rocks/db/cleaner.h"
#include "store/rocks/db/database.h"
#include "store/rocks/rocks_store.h"

namespace recollect::store::rocks {

// Families in which a document has records under its owner.
inline constexpr Family kDocumentFamilies[] = {Family::kText, Family::kTokens, Family::kChunks,
                                               Family::kLandmarks};

inline Family FamilyOf(EntryKind kind) {
  constexpr Family kOfKind[] = {Family::kChunks, Family::kText, Family::kTokens,
                                Family::kLandmarks};
  return kOfKind[static_cast<int>(kind)];
}

// A batch of chunk reads is split over these threads: the library reads a batch's blocks one after
// another (its asynchronous reads need io_uring, which Debian's build lacks), a disk serves several
// at once. Measured in docs/decisions/0010-chunk-records-inline.md.
inline constexpr int kReadThreads = 4;
inline constexpr int64_t kMinReads = 4;  // of one thread

class RocksStore final : public PieceStore {
 public:
  // `env` null: the system's; otherwise outlives the store (tests make the disk fail with it).
  static absl::StatusOr<std::unique_ptr<DocumentStore>> Open(const RocksOptions& options,
                                                             rocksdb::Env* env);

  absl::StatusOr<DocumentInfo> Get(const std::string& id) override;
  absl::StatusOr<std::vector<DocumentInfo>> List(const std::string& after, int64_t limit) override;
  absl::StatusOr<DocumentInfo> Remove(const std::string& id) override;
  absl::StatusOr<DocumentInfo> ChangeMetadata(const std::string& id,
                                              const MetadataChange& change) override;
  absl::Status Free(OwnerId owner) override;

  absl::StatusOr<IngestProgress> Begin(const IngestProgress& asked) override;
  absl::StatusOr<std::vector<IngestProgress>> ListIngests() override;
  absl::Status PutStatePart(OwnerId owner, int64_t index, absl::string_view bytes) override;
  absl::Status CommitIngest(OwnerId owner, const IngestBatch& batch) override;
  absl::StatusOr<DocumentInfo> PublishIngest(OwnerId owner, const IngestBatch& last) override;
  absl::Status AbandonIngest(const std::string& id) override;
  absl::StatusOr<OwnerId> BeginImport(const DocumentInfo& document) override;
  absl::Status AbandonImport(OwnerId owner) override;

  absl::Status FillLandmarkKeys(OwnerId owner, int64_t chunks, int64_t d_k, Bf16* keys) override;
  std::vector<absl::StatusOr<ChunkRecord>> ReadChunks(std::span<const ChunkRef> refs) override;
  absl::StatusOr<std::string> ReadStatePart(OwnerId owner, int64_t index) override;
  absl::StatusOr<std::string> ReadAppendPoint(OwnerId owner) override;

  absl::Status PutIndex(OwnerId owner, absl::string_view bytes) override;
  absl::StatusOr<std::string> ReadIndex(OwnerId owner) override;

  absl::StatusOr<OwnerId> NewSessionOwner() override;
  absl::Status PutSessionChunk(ChunkRef ref, const ChunkRecord& chunk) override;
  absl::Status FreeSession(OwnerId owner) override;

  absl::StatusOr<BackupInfo> Backup(const std::string& directory, uint32_t keep) override {
    return database_->Backup(directory, keep);
  }
  absl::StatusOr<std::vector<BackupInfo>> ListBackups(const std::string& directory) override;

  StoreState state() override { return database_->state(); }

  absl::Status FlushForTest() { return database_->Flush(); }
  absl::Status CompactForTest(Family family) {
    std::atomic<bool> canceled{false};
    return database_->Compact(family, "", std::string(8, '\xff'), &canceled);
  }

 private:
  enum class Kind { kIngest, kDocument, kRemoved, kSession };

  // The facts about an owner that are known without reading the disk.
  struct Owner : DocumentSizes {  // without an id: a session
    Owner(Kind kind_in, const DocumentSizes& sizes) : DocumentSizes(sizes), kind(kind_in) {}
    Kind kind;
  };

  // An unfinished ingest or import. `mutex` is held during a commit, so that commits of one ingest
  // are serial while other ingests commit in parallel. `state` is the durable state, without
  // resume_state.
  struct Ingest {
    Mutex mutex;
    IngestState state;
    bool done ABSL_GUARDED_BY(mutex) = false;  // published or abandoned
    // An import of a document that was made elsewhere. Its owner is marked as removed until it is
    // published, so that the next open frees what a crash leaves.
    bool import = false;
  };

  explicit RocksStore(std::unique_ptr<Database> database);

  // rocks_store.cc; these run before anybody else has the store.
  // DATA_LOSS if publications or deletions were lost. Changes no file.
  static absl::Status CheckWhole(const RocksOptions& options, rocksdb::Env* env);
  absl::Status Load() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // Upgrades a database of version 1, which had each record of the catalog once.
  absl::Status Upgrade() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status LoadCatalog(std::vector<OwnerId>* unfreed,
                           bool* damaged) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status LoadIngests(bool* damaged);
  // Adds to `unnamed` the owners of records that neither another record nor `unfreed` names: the
  // remains of documents and ingests that were deleted while their own record was damaged.
  absl::Status FindUnnamed(const std::vector<OwnerId>& unfreed,
                           std::vector<OwnerId>* unnamed) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // documents.cc
  // Returns a number that was never given out before.
  absl::StatusOr<OwnerId> NewOwner();
  absl::StatusOr<OwnerId> NewOwnerLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(numbers_mutex_);
  absl::StatusOr<Owner> FindOwner(OwnerId owner) const;
  bool Is(OwnerId owner, Kind kind) const;
  // Adds the document's name to DATA_LOSS; any other status is returned unchanged.
  absl::Status OfDocument(OwnerId owner, const absl::Status& status) const;
  absl::Status FreeRecords(OwnerId owner);
  // Writes a batch that publishes or deletes together with `next`, the catalog's counts after the
  // batch, which count it as one more change.
  absl::Status WriteCatalog(Batch& batch, CatalogRecord next, absl::string_view what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(catalog_mutex_);
  // Implements AbandonIngest for an ingest whose record could not be read when the store was
  // opened.
  absl::Status AbandonDamaged(const std::string& id);

  // ingest.cc
  // Returns ALREADY_EXISTS if a document of that id is published or being ingested.
  absl::Status CheckAbsent(const IngestProgress& asked)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(catalog_mutex_);
  // Puts the document with its last batch's metadata into the catalog, in place of the document
  // that a refresh replaces.
  absl::Status PutDocument(const IngestProgress& progress, const IngestBatch& last,
                           DocumentInfo* info, Batch* out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(catalog_mutex_);
  void PutAppendPoint(OwnerId owner, absl::string_view point, Batch* out);
  absl::StatusOr<std::shared_ptr<Ingest>> FindIngest(OwnerId owner) const;
  absl::StatusOr<IngestState> AddBatch(const IngestState& state, const IngestBatch& batch,
                                       Batch* out);
  // Adds entries of `width` numbers behind the `committed` numbers of their kind.
  template <typename Pieces>
  absl::Status Append(OwnerId owner, int64_t committed, const typename Pieces::Entries& more,
                      int64_t width, Batch* out);
  // Drops parts of the owner that do not belong to its state. The committed state stays even on
  // failure.
  void DropOldState(const IngestProgress& progress);

  // index.cc: runs one write of an index, unless the document has gone.
  template <typename Write>
  absl::Status WriteToDocument(OwnerId owner, const Write& write);

  // read.cc
  absl::Status ReadPieces(OwnerId owner, EntryKind kind, int64_t begin, int64_t end,
                          const TakePiece& take) override;

  const std::unique_ptr<Database> database_;

  // Held during every change to the set of documents and ingests (begin, publish, remove, free),
  // including the disk write.
  Mutex catalog_mutex_;
  CatalogRecord catalog_ ABSL_GUARDED_BY(catalog_mutex_);
  int64_t freed_session_bytes_ ABSL_GUARDED_BY(catalog_mutex_) = 0;
  int64_t freed_sessions_ ABSL_GUARDED_BY(catalog_mutex_) = 0;

  // Separate from catalog_mutex_: a session that stores its first chunk must not wait for the
  // deletion of a large document.
  Mutex numbers_mutex_;
  uint64_t next_owner_ ABSL_GUARDED_BY(numbers_mutex_) = 1;
  // Numbers below are reserved on disk.
  uint64_t owner_limit_ ABSL_GUARDED_BY(numbers_mutex_) = 1;
  // The owners of open sessions: sessions' chunks below the first of them, or below next_owner_ if
  // there is none, belong to closed sessions.
  std::set<OwnerId> sessions_ ABSL_GUARDED_BY(numbers_mutex_);

  // Never held while the disk is written.
  mutable SharedMutex owners_mutex_;
  std::unordered_map<OwnerId, Owner> owners_ ABSL_GUARDED_BY(owners_mutex_);
  std::unordered_map<OwnerId, std::shared_ptr<Ingest>> ingests_ ABSL_GUARDED_BY(owners_mutex_);
  std::map<std::string, OwnerId> ingest_ids_ ABSL_GUARDED_BY(owners_mutex_);  // without imports

  ThreadPool read_pool_{kReadThreads};
  Cleaner cleaner_;  // last: its jobs use all of the above
};

}  // namespace recollect::store::rocks
