// The storage of documents: catalog, text, tokens, chunk states, landmark keys and an index over
// them, states of prefixes and unfinished ingests, and sessions' own chunks. It moves bytes and
// ids; it knows no models, sessions or retrieval.
//
// DocumentStore is all of it; callers take the role that they need: Catalog, IngestWriter,
// DocumentReader or SessionChunks.
//
// Three implementations: RocksDB (store/rocks/, durable on one machine), Ceph RADOS (store/rados/,
// shared by several servers) and memory (tests, machines without RocksDB). Record layouts, versions
// and checksums: docs/formats.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numeric/bf16.h"
#include "base/types.h"
#include "store/document.h"

namespace recollect::store {

// Errors common to all calls of all roles: DATA_LOSS when a record's checksum, version or size is
// wrong (names the record); RESOURCE_EXHAUSTED when the disk is full; UNAVAILABLE for other I/O
// errors. All are thread-safe.

// The published documents.
class Catalog {
 public:
  virtual ~Catalog() = default;

  virtual absl::StatusOr<DocumentInfo> Get(const std::string& id) = 0;  // NOT_FOUND
  // Up to `limit` documents with id > `after`, in byte order of id, including damaged ones.
  virtual absl::StatusOr<std::vector<DocumentInfo>> List(const std::string& after,
                                                         int64_t limit) = 0;
  // Removes the document from the catalog at once and returns its info. Its records stay readable
  // by owner until Free(owner); a store that is reopened frees owners that were removed and not
  // freed. NOT_FOUND. If its catalog record is damaged, only `id` and `damage` are known; its space
  // is freed when the store is next opened with no damaged record left.
  virtual absl::StatusOr<DocumentInfo> Remove(const std::string& id) = 0;
  // Puts what `change` makes of a published document's metadata in its place, and returns the
  // document. `change` may be called again where another process was faster; its error changes
  // nothing. NOT_FOUND.
  using MetadataChange = std::function<absl::StatusOr<std::string>(const std::string& metadata)>;
  virtual absl::StatusOr<DocumentInfo> ChangeMetadata(const std::string& id,
                                                      const MetadataChange& change) = 0;
  // Frees the space of a removed document or abandoned ingest; where another process pins it, after
  // the last pin.
  virtual absl::Status Free(OwnerId owner) = 0;

  // Pins a published document: its records stay, although another process removes and frees it,
  // until Unpin has been called as often, or this process ends. NOT_FOUND: it was removed. Does
  // nothing in a store that only one process uses.
  virtual absl::Status Pin(OwnerId /*owner*/) { return absl::OkStatus(); }
  virtual void Unpin(OwnerId /*owner*/) {}
};

// Writes documents.
class IngestWriter {
 public:
  virtual ~IngestWriter() = default;

  // Resumes the unfinished ingest of that id, or creates one; FAILED_PRECONDITION when the
  // unfinished one has another fingerprint, kind of input or pattern (names both), ALREADY_EXISTS
  // when the id is published. A `pattern` that is not empty makes it a prefix. ABORTED: another
  // process that shares the store is writing it. REQUIRES: one caller at a time per id in this
  // process, which the engine ensures.
  absl::StatusOr<IngestProgress> BeginIngest(const std::string& id, const std::string& fingerprint,
                                             bool from_tokens, const std::string& pattern);
  // Begins or resumes an ingest that replaces a published document, for example to read it by
  // another model. `document` stays as it is until PublishIngest puts the new document in its
  // place, which keeps its time of creation. NOT_FOUND: the id has no document of this owner any
  // more. FAILED_PRECONDITION also when the unfinished ingest is no refresh of this document;
  // AbandonIngest forgets that ingest. ABORTED as BeginIngest; from PublishIngest: the document was
  // removed meanwhile.
  absl::StatusOr<IngestProgress> BeginRefresh(const DocumentInfo& document,
                                              const std::string& fingerprint,
                                              const std::string& pattern);
  // Does the work of both: of `asked`, id, fingerprint, from_tokens, pattern and replaces are set.
  virtual absl::StatusOr<IngestProgress> Begin(const IngestProgress& asked) = 0;
  // Tells the store that the caller writes no more of the ingest for now; another process may go on
  // with it.
  virtual void LeaveIngest(OwnerId /*owner*/) {}
  virtual absl::StatusOr<std::vector<IngestProgress>> ListIngests() = 0;  // without resume_state
  // Puts one part of a prefix's next state, before the commit that makes it the state. Part 0 comes
  // first and discards parts put earlier; the others follow in order, all but the last full.
  // INVALID_ARGUMENT otherwise.
  virtual absl::Status PutStatePart(OwnerId owner, int64_t index, absl::string_view bytes) = 0;
  // Appends the batch to the ingest's records: all of it is durable afterwards, or nothing is.
  virtual absl::Status CommitIngest(OwnerId owner, const IngestBatch& batch) = 0;
  // Writes the last commit and publishes the document in the catalog, atomically. Afterwards there
  // is no ingest of that id. The records of a document that is replaced stay readable by owner
  // until Free, like those of a removed document.
  virtual absl::StatusOr<DocumentInfo> PublishIngest(OwnerId owner, const IngestBatch& last) = 0;
  // Forgets an unfinished ingest and frees its records. NOT_FOUND.
  virtual absl::Status AbandonIngest(const std::string& id) = 0;

  // Begins the import of a document that was made elsewhere (store/document_transfer.h): nobody
  // sees it before it is published, and a store that is reopened frees unpublished imports.
  // `document` has id, fingerprint, from_tokens and pattern. PutStatePart, CommitIngest (which need
  // not be durable) and PublishIngest take the returned owner like that of an ingest.
  // ALREADY_EXISTS, also from PublishIngest: the id is published, or being ingested.
  virtual absl::StatusOr<OwnerId> BeginImport(const DocumentInfo& document) = 0;
  // Frees what was imported so far. NOT_FOUND once it is published.
  virtual absl::Status AbandonImport(OwnerId owner) = 0;
};

// Reads the records of documents and ingests by owner, and sessions' own chunks.
class DocumentReader {
 public:
  virtual ~DocumentReader() = default;

  // Reads the keys of chunks [begin, end); OUT_OF_RANGE names the range and the size.
  virtual absl::StatusOr<std::vector<Bf16>> ReadLandmarkKeyRange(OwnerId owner, int64_t begin,
                                                                 int64_t end, int64_t d_k) = 0;
  absl::StatusOr<std::vector<Bf16>> ReadLandmarkKeys(OwnerId owner, int64_t chunks, int64_t d_k) {
    return ReadLandmarkKeyRange(owner, 0, chunks, d_k);
  }
  // Reads all keys of a large document into keys[chunks, d_k], by several threads where the store
  // can. After an error the contents of `keys` are undefined.
  virtual absl::Status FillLandmarkKeys(OwnerId owner, int64_t chunks, int64_t d_k, Bf16* keys) {
    absl::StatusOr<std::vector<Bf16>> read = ReadLandmarkKeys(owner, chunks, d_k);
    if (read.ok()) std::copy(read->begin(), read->end(), keys);
    return read.status();
  }
  // Reads chunks in one batch; results are in the order of `refs`, each with its own status. Blocks
  // on the disk: the engine calls it from its fetch threads.
  virtual std::vector<absl::StatusOr<ChunkRecord>> ReadChunks(std::span<const ChunkRef> refs) = 0;
  // Returns bytes [begin, end) of the text; OUT_OF_RANGE names the range and the size.
  virtual absl::StatusOr<std::string> ReadText(OwnerId owner, int64_t begin, int64_t end) = 0;
  virtual absl::StatusOr<std::vector<int32_t>> ReadTokens(OwnerId owner, int64_t begin,
                                                          int64_t end) = 0;
  // Returns a part of the state that was committed last; OUT_OF_RANGE names the part and the size.
  virtual absl::StatusOr<std::string> ReadStatePart(OwnerId owner, int64_t index) = 0;
  // Returns the append point that a document was published with. NOT_FOUND: it has none.
  virtual absl::StatusOr<std::string> ReadAppendPoint(OwnerId owner) = 0;
};

// Keeps sessions' own chunks, which DocumentReader::ReadChunks reads: not durable across a reopen,
// freed by FreeSession.
class SessionChunks {
 public:
  virtual ~SessionChunks() = default;

  virtual absl::StatusOr<OwnerId> NewSessionOwner() = 0;
  virtual absl::Status PutSessionChunk(ChunkRef ref, const ChunkRecord& chunk) = 0;
  virtual absl::Status FreeSession(OwnerId owner) = 0;
};

// A backup of all that is published and of unfinished ingests (store/rocks/backup/backup.h).
struct BackupInfo {
  uint32_t number = 0;  // ascending, from 1, in its directory
  int64_t created_unix_s = 0;
  int64_t bytes = 0;  // of its files, those that it shares with other backups included
  int64_t files = 0;
  int64_t documents = 0;  // published when it was begun
  // If not empty, what is wrong with it, and only `number` is known.
  std::string damage = {};
};

// The state of a store, for statistics. Bytes are on disk; in the memory store, in RAM.
struct StoreState {
  int64_t bytes = 0;       // approximate, with what is in memory until it is written
  int64_t free_bytes = 0;  // of its disk; 0: unknown, or there is no disk
  // Set after an error of the disk, until a write has opened the database again (Database::Write).
  bool read_only = false;
  // Bytes in tables, by column family; empty if the store has no tables.
  std::vector<std::pair<std::string, int64_t>> table_bytes = {};
  // The state of a cache on this disk in front of a store elsewhere; a budget of 0: there is none.
  // Hits and misses count chunks since the start; a damaged chunk counts as a miss, too.
  int64_t cache_bytes = 0, cache_budget_bytes = 0;
  int64_t cache_hits = 0, cache_misses = 0, cache_damaged = 0;
  bool cache_read_only = false;  // after an error of that disk, or while it is nearly full
};

class DocumentStore : public Catalog,
                      public IngestWriter,
                      public DocumentReader,
                      public SessionChunks {
 public:
  // Stores an index over a document's landmark keys: at least one byte, not interpreted by the
  // store, freed with the document. Replaces the earlier index; while the new one is being written,
  // and after a crash during that, there may be none. Takes long for many bytes, and keeps other
  // changes of the catalog waiting for one piece at most. NOT_FOUND: the owner is not a published
  // document, or it was removed meanwhile. REQUIRES: one caller at a time per owner.
  virtual absl::Status PutIndex(OwnerId owner, absl::string_view bytes) = 0;
  // Returns the index. NOT_FOUND: the document has none.
  virtual absl::StatusOr<std::string> ReadIndex(OwnerId owner) = 0;

  // Makes a backup in `directory`, which is made if it is missing, while the store is in use; then
  // removes all backups but the latest `keep` (0: removes none). Blocks while it copies. ABORTED:
  // another backup is being made there; INVALID_ARGUMENT: one of `directory` and the store's
  // directory lies in the other; UNIMPLEMENTED: the store makes no backups. An error leaves no
  // backup.
  virtual absl::StatusOr<BackupInfo> Backup(const std::string& /*directory*/, uint32_t /*keep*/) {
    return absl::UnimplementedError("this store makes no backups: save documents with docs export");
  }
  // Returns the backups in `directory`, oldest first, also damaged ones. NOT_FOUND: it has none.
  virtual absl::StatusOr<std::vector<BackupInfo>> ListBackups(const std::string& /*directory*/) {
    return absl::UnimplementedError("this store makes no backups: save documents with docs export");
  }

  virtual StoreState state() = 0;
};

// A store in memory only, for tests and machines without RocksDB.
std::unique_ptr<DocumentStore> CreateMemoryStore();

}  // namespace recollect::store
