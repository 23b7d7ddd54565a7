// The class behind OpenRadosStore, for its own .cc files.
//
// rados_store.cc opens; documents.cc keeps the catalog and pins, and frees; writers.cc begins and
// takes over ingests and imports, ingest.cc commits and publishes; head.cc reads head objects;
// chunks.cc reads chunks, through the cache if there is one, and keeps those of sessions; read.cc
// reads all else by owner; index.cc keeps indexes.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/sync/mutex.h"
#include "store/document_store.h"
#include "store/ingest_state.h"
#include "store/pieces.h"
#include "store/rados/layout.h"
#include "store/rados/leases.h"
#include "store/rados/pool.h"
#include "store/rados/rados_store.h"
#include "store/rados/records.h"
#include "store/record_cache.h"

namespace recollect::store::rados {

// The contents of a head object.
struct Head {
  std::string epoch;  // as it is stored; empty: the object has been made, and no more
  bool removed = false;
  bool committed = false;  // there is progress
  IngestState state;       // without resume_state
  CursorRecord cursor;
  bool is_final = false;
  DocumentInfo document;  // if it is final, like the next
  CursorRecord final_cursor;
  bool has_index = false;
  IndexHeadRecord index;
};

// NOT_FOUND, naming the owner: there is no such object.
absl::StatusOr<Head> ReadHead(Pool& pool, OwnerId owner);
// Reads the places of the records in the commits that the cursor counts.
absl::StatusOr<std::shared_ptr<Layout>> ReadLayout(Pool& pool, OwnerId owner,
                                                   const CursorRecord& cursor, Sizes sizes);
// Returns the objects of an index, or of the parts of a state.
std::vector<std::string> IndexObjects(OwnerId owner, const IndexHeadRecord& index);
std::vector<std::string> StateObjects(OwnerId owner, uint64_t epoch, const DocumentSizes& of);
// Returns every object that the head refers to, without the head itself.
absl::StatusOr<std::vector<std::string>> ObjectsOf(Pool& pool, OwnerId owner, const Head& head);
// Checks the format version; FAILED_PRECONDITION: another one, or objects of others. `makes`: an
// empty namespace becomes a store; otherwise it is NOT_FOUND.
absl::Status CheckPool(Pool& pool, bool makes);
// Entries of the catalog that are read at once.
inline constexpr int64_t kCatalogPage = 1000;
// Visits the catalog's entries with this prefix, from behind `after` on, until visit(key, value)
// returns false.
absl::Status ScanEntries(Pool& pool, absl::string_view prefix, const std::string& after,
                         int64_t page,
                         const std::function<bool(const std::string&, const std::string&)>& visit);
// Visits the documents of the catalog in order, damaged ones as DATA_LOSS, until visit returns
// false.
absl::Status ScanCatalog(
    Pool& pool, const std::string& after, int64_t page,
    const std::function<bool(const std::string&, const absl::StatusOr<DocumentInfo>&)>& visit);
// Returns the owners whose documents, ingests or imports the catalog says are removed.
absl::StatusOr<std::set<OwnerId>> RemovedOwners(Pool& pool);
// Frees a removed document. Returns false if it is not freed yet, since a pin or a writer holds it.
absl::StatusOr<bool> FreeRemoved(Pool& pool, OwnerId owner);

class RadosStore final : public PieceStore {
 public:
  RadosStore(std::unique_ptr<Pool> pool, const RadosOptions& options,
             std::unique_ptr<RecordCache> cache);
  // Frees removed documents that nobody uses.
  absl::Status Load();

  absl::StatusOr<DocumentInfo> Get(const std::string& id) override;
  absl::StatusOr<std::vector<DocumentInfo>> List(const std::string& after, int64_t limit) override;
  absl::StatusOr<DocumentInfo> Remove(const std::string& id) override;
  absl::StatusOr<DocumentInfo> ChangeMetadata(const std::string& id,
                                              const MetadataChange& change) override;
  absl::Status Free(OwnerId owner) override;
  absl::Status Pin(OwnerId owner) override;
  void Unpin(OwnerId owner) override;

  absl::StatusOr<IngestProgress> Begin(const IngestProgress& asked) override;
  void LeaveIngest(OwnerId owner) override;
  absl::StatusOr<std::vector<IngestProgress>> ListIngests() override;
  absl::Status PutStatePart(OwnerId owner, int64_t index, absl::string_view bytes) override;
  absl::Status CommitIngest(OwnerId owner, const IngestBatch& batch) override;
  absl::StatusOr<DocumentInfo> PublishIngest(OwnerId owner, const IngestBatch& last) override;
  absl::Status AbandonIngest(const std::string& id) override;
  absl::StatusOr<OwnerId> BeginImport(const DocumentInfo& document) override;
  absl::Status AbandonImport(OwnerId owner) override;

  std::vector<absl::StatusOr<ChunkRecord>> ReadChunks(std::span<const ChunkRef> refs) override;
  absl::StatusOr<std::string> ReadStatePart(OwnerId owner, int64_t index) override;
  absl::StatusOr<std::string> ReadAppendPoint(OwnerId owner) override;

  absl::Status PutIndex(OwnerId owner, absl::string_view bytes) override;
  absl::StatusOr<std::string> ReadIndex(OwnerId owner) override;

  absl::StatusOr<OwnerId> NewSessionOwner() override;
  absl::Status PutSessionChunk(ChunkRef ref, const ChunkRecord& chunk) override;
  absl::Status FreeSession(OwnerId owner) override;

  StoreState state() override;

 private:
  // An ingest or import that this process writes.
  struct Ingest {
    explicit Ingest(std::shared_ptr<Layout> layout_in) : layout(std::move(layout_in)) {}
    Mutex mutex;                               // held during a commit
    IngestState state ABSL_GUARDED_BY(mutex);  // without resume_state
    CursorRecord cursor ABSL_GUARDED_BY(mutex);
    uint64_t segment ABSL_GUARDED_BY(mutex) = 0;  // the next record goes there, like the next
    uint64_t offset ABSL_GUARDED_BY(mutex) = 0;
    bool done ABSL_GUARDED_BY(mutex) = false;  // published or abandoned
    // Set after a commit that failed or may have failed: only BeginIngest goes on from here.
    bool lost ABSL_GUARDED_BY(mutex) = false;
    uint64_t epoch = 0;
    std::string import_record;  // in the catalog, of an import; otherwise empty
    const std::shared_ptr<Layout> layout;
  };

  // documents.cc
  absl::StatusOr<OwnerId> NewOwner();
  absl::Status ChangeCatalog(Change change, absl::string_view what);
  // Frees a removed document, or, while others hold it, keeps it pending.
  void FreeOrWait(OwnerId owner);
  void FreePending();
  absl::Status TakePin(OwnerId owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pins_mutex_);
  void TakeLapsedPins();
  void Forget(OwnerId owner);

  // writers.cc
  // Returns the catalog's entries that concern an id.
  absl::StatusOr<std::map<std::string, std::string>> CatalogEntries(const std::string& id);
  // Returns the document among these entries, NOT_FOUND if there is none.
  static absl::StatusOr<DocumentInfo> DocumentIn(const std::map<std::string, std::string>& entries,
                                                 const std::string& id);
  // Becomes the writer of the unfinished ingest, whose record in the catalog is `begun` and whose
  // writer had `epoch`. ABORTED: another server is the writer; CANCELLED: the catalog has changed
  // meanwhile.
  absl::StatusOr<std::shared_ptr<Ingest>> TakeOver(const IngestState& begun, uint64_t epoch);
  // Returns the ingest of an owner; if no server writes it, this process becomes its writer.
  absl::StatusOr<std::shared_ptr<Ingest>> FindIngest(OwnerId owner);
  std::shared_ptr<Ingest> Held(OwnerId owner);
  void Keep(OwnerId owner, std::shared_ptr<Ingest> ingest);
  // Stops being the writer; the lock is free for others.
  void LetGo(OwnerId owner);

  // ingest.cc
  struct Written {
    std::vector<Extent> extents = {};
    uint64_t segment = 0;  // where the next record goes, like the next
    uint64_t offset = 0;
    CursorRecord cursor = {};  // once the extents count
    Change change = {};        // of the head: has the extents
  };
  // Returns the change of the catalog that publishes, and describes `info`.
  absl::StatusOr<Change> Publication(const Ingest& ingest, const IngestBatch& last,
                                     DocumentInfo* info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ingest.mutex);
  // Writes the records of a batch beside what is committed.
  absl::StatusOr<Written> WriteBatch(Ingest& ingest, const IngestBatch& batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ingest.mutex);
  // Applies a change to the head as its writer.
  absl::Status ChangeHead(Ingest& ingest, Change change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ingest.mutex);
  // Returns the status for the caller; the ingest is lost unless it is known that nothing was
  // written.
  absl::Status Failed(Ingest& ingest, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ingest.mutex);
  absl::Status CheckWritable(const Ingest& ingest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ingest.mutex);
  // Removes what was the state before a commit, if it is not any more.
  void DropOldState(const IngestProgress& before, uint64_t state_epoch, const IngestProgress& now);

  // chunks.cc
  // A chunk that is to be read, and where it goes.
  struct Wanted {
    size_t place = 0;
    Piece piece;
    std::string cache_key;  // empty: it is not cached
  };
  // Puts chunks that the cache has into `out`, and leaves the others in `wanted`.
  void TakeFromCache(std::span<const ChunkRef> refs, std::vector<Wanted>* wanted,
                     std::vector<absl::StatusOr<ChunkRecord>>* out);

  // read.cc
  // Sets the layout's cache name, if there is a cache. Called once the document is published.
  void NameForCache(Layout& layout, const DocumentInfo& document) const;
  absl::StatusOr<std::shared_ptr<Layout>> FindLayout(OwnerId owner);
  // Returns NOT_FOUND if the owner has gone meanwhile, otherwise DATA_LOSS.
  absl::Status MissingFrom(OwnerId owner, absl::string_view what);
  absl::Status ReadPieces(OwnerId owner, Kind kind, int64_t begin, int64_t end,
                          const TakePiece& take) override;

  const std::unique_ptr<Pool> pool_;
  const RadosOptions options_;
  const std::unique_ptr<RecordCache> cache_;  // or none
  std::string identity_;                      // of the pool, if there is a cache
  std::atomic<int64_t> cache_hits_{0}, cache_misses_{0}, cache_damaged_{0};
  // Sessions' own chunks, which only this process has.
  const std::unique_ptr<DocumentStore> sessions_ = CreateMemoryStore();

  Mutex numbers_mutex_;
  uint64_t next_owner_ ABSL_GUARDED_BY(numbers_mutex_) = 0;
  uint64_t owner_limit_ ABSL_GUARDED_BY(numbers_mutex_) = 0;

  Mutex mutex_;  // never held during an operation of the pool
  std::unordered_map<OwnerId, std::shared_ptr<Ingest>> ingests_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<OwnerId, std::shared_ptr<Layout>> layouts_ ABSL_GUARDED_BY(mutex_);
  std::set<OwnerId> pending_ ABSL_GUARDED_BY(mutex_);  // removed, and others hold them

  Mutex pins_mutex_;  // held while a pin is taken or dropped
  std::map<OwnerId, int> pins_ ABSL_GUARDED_BY(pins_mutex_);

  Leases leases_;  // last: its thread uses all of the above
};

}  // namespace recollect::store::rados
