// The storage of documents: catalog, text, tokens, chunk states, landmark keys and an index over
// them, states of prefixes and unfinished ingests, and sessions' own chunks. It moves bytes and
// ids; it knows no models, sessions or retrieval.
//
// Three implementations: RocksDB (store/rocks/, durable on one machine), Ceph RADOS (store/rados/,
// shared by several servers) and memory (tests, machines without RocksDB). Record layouts, versions
// and checksums: docs/formats.md.
#ifndef RECOLLECT_STORE_DOCUMENT_STORE_H_
#define RECOLLECT_STORE_DOCUMENT_STORE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numeric/bf16.h"
#include "base/numeric/mxint8.h"
#include "base/types.h"

namespace recollect::store {

// A prefix's state is a string of any length, kept in parts of this size; the last part may be
// shorter.
inline constexpr int64_t kStatePartBytes = int64_t{1} << 20;

// A published document. Immutable, but for its metadata.
struct DocumentInfo {
  std::string id;            // the user's name for it
  OwnerId owner{};           // internal number, never reused
  std::string fingerprint;   // of the model that read it
  bool from_tokens = false;  // ingested as token ids: the text is their decoding
  int64_t bytes = 0;         // of text
  int64_t tokens = 0;
  int64_t chunks = 0;
  int64_t created_unix_ms = 0;
  int64_t stored_bytes = 0;  // all records before compression
  std::string sha256;        // hex, of the text
  // If not empty, the document is a prefix: it has no chunks, and the state of a sequence that has
  // read it under this pattern is kept. The store only compares this text.
  std::string pattern;
  int64_t state_bytes = 0;
  int64_t first_state_part = 0;  // private to the store: the number of part 0's record
  bool text = false;             // its chunks have no states and no landmark keys
  std::string metadata;          // as store/metadata.h keeps it; empty: none
  DocumentKind kind() const {
    if (!pattern.empty()) return DocumentKind::kPrefix;
    return text ? DocumentKind::kText : DocumentKind::kChunks;
  }
  // If not empty, the catalog record is damaged in the way described, and only `id` is known. Set
  // by List and Remove only; Get returns DATA_LOSS in this case.
  std::string damage;
};

// A chunk as stored: its states, its text range and, for a model with a pointer, its tokens. In a
// document that is kept as text it is the range alone: the document's tokens are kept once.
struct ChunkRecord {
  std::vector<Bf16> states;  // [rows, width]; empty: of a document that is kept as text
  int32_t rows = 0;          // tokens, 1..64
  // The chunk's tokens, preceded by at most kMaxPointerReach tokens before it; or empty.
  std::vector<int32_t> tokens;
  int64_t text_begin = 0;  // byte range in the document's text
  int64_t text_end = 0;
  // The states are MXINT8 numbers (base/numeric/mxint8.h), and records have them as such.
  bool mxint8 = false;
  int64_t stored_states_bytes() const {
    return static_cast<int64_t>(mxint8 ? MxInt8Bytes(states.size()) : states.size() * sizeof(Bf16));
  }
  int64_t bytes() const {
    return static_cast<int64_t>(states.size() * sizeof(Bf16) + tokens.size() * sizeof(int32_t) +
                                sizeof(*this));
  }
};

// The additions of one commit of an ingest. All of it becomes durable together or not at all.
struct IngestBatch {
  std::vector<ChunkRecord> chunks;  // following those already committed
  std::vector<Bf16> landmark_keys;  // [chunks.size(), d_k]; none for chunks without states
  std::vector<int32_t> tokens;      // following those already committed
  std::string text;                 // following the text committed
  std::string resume_state;         // opaque to the store; replaces the previous one
  int64_t input_offset = 0;         // bytes (or tokens, for token input) of input accepted so far
  // For a prefix: the number of bytes put by PutStatePart since the last commit, which replace the
  // earlier state; 0 keeps it.
  int64_t state_bytes = 0;
  // Kept with the document, opaque to the store; of the batch of PublishIngest. Empty: none.
  std::string append_point;
  // For PublishIngest: the metadata of the document; without it, that of the document which is
  // replaced.
  std::optional<std::string> metadata = {};
};

// An ingest that has begun and is not published.
struct IngestProgress {
  std::string id;
  OwnerId owner{};
  std::string fingerprint;
  bool from_tokens = false;
  int64_t input_offset = 0;
  int64_t bytes = 0;
  int64_t tokens = 0;
  int64_t chunks = 0;
  std::string pattern;  // as in DocumentInfo, like the next two
  int64_t state_bytes = 0;
  int64_t first_state_part = 0;
  bool text = false;  // as in DocumentInfo; false before the first chunk
  DocumentKind kind() const {
    if (!pattern.empty()) return DocumentKind::kPrefix;
    return text ? DocumentKind::kText : DocumentKind::kChunks;
  }
  // If not 0, a refresh: the owner of the published document that this one is to replace.
  OwnerId replaces{};
  std::string resume_state;  // empty when nothing was committed
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

// Returns NOT_FOUND: a document without an append point.
absl::Status NoAppendPoint(OwnerId owner);

// Errors common to all calls: DATA_LOSS when a record's checksum, version or size is wrong (names
// the record); RESOURCE_EXHAUSTED when the disk is full; UNAVAILABLE for other I/O errors.
// Thread-safe.
class DocumentStore {
 public:
  virtual ~DocumentStore() = default;

  // Published documents.
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
  virtual absl::Status Pin(OwnerId owner) {
    (void)owner;
    return absl::OkStatus();
  }
  virtual void Unpin(OwnerId owner) { (void)owner; }

  // Ingest. BeginIngest resumes the unfinished ingest of that id, or creates one;
  // FAILED_PRECONDITION when the unfinished one has another fingerprint, kind of input or pattern
  // (names both), ALREADY_EXISTS when the id is published. A `pattern` that is not empty makes it a
  // prefix. ABORTED: another process that shares the store is writing it. REQUIRES: one caller at a
  // time per id in this process, which the engine ensures.
  virtual absl::StatusOr<IngestProgress> BeginIngest(const std::string& id,
                                                     const std::string& fingerprint,
                                                     bool from_tokens,
                                                     const std::string& pattern) = 0;
  // Begins or resumes an ingest that replaces a published document, for example to read it by
  // another model. `document` stays as it is until PublishIngest puts the new document in its
  // place, which keeps its time of creation. NOT_FOUND: the id has no document of this owner any
  // more. FAILED_PRECONDITION also when the unfinished ingest is no refresh of this document;
  // AbandonIngest forgets that ingest. ABORTED as BeginIngest; from PublishIngest: the document was
  // removed meanwhile.
  virtual absl::StatusOr<IngestProgress> BeginRefresh(const DocumentInfo& document,
                                                      const std::string& fingerprint,
                                                      const std::string& pattern) = 0;
  // Tells the store that the caller writes no more of the ingest for now; another process may go on
  // with it.
  virtual void LeaveIngest(OwnerId owner) { (void)owner; }
  virtual absl::StatusOr<std::vector<IngestProgress>> ListIngests() = 0;  // without resume_state
  // Puts one part of a prefix's next state, before the commit that makes it the state. Part 0 comes
  // first and discards parts put earlier; the others follow in order, all but the last full.
  // INVALID_ARGUMENT otherwise.
  virtual absl::Status PutStatePart(OwnerId owner, int64_t index, absl::string_view bytes) = 0;
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

  // Reading by owner.
  virtual absl::StatusOr<std::vector<Bf16>> ReadLandmarkKeys(OwnerId owner, int64_t chunks,
                                                             int64_t d_k) = 0;
  // Reads the keys of chunks [begin, end) alone; OUT_OF_RANGE names the range and the size.
  virtual absl::StatusOr<std::vector<Bf16>> ReadLandmarkKeyRange(OwnerId owner, int64_t begin,
                                                                 int64_t end, int64_t d_k) = 0;
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

  // Returns the append point that a document was published with. NOT_FOUND: it has none; the store
  // over RADOS keeps none.
  virtual absl::StatusOr<std::string> ReadAppendPoint(OwnerId owner) {
    return NoAppendPoint(owner);
  }

  // Stores an index over a document's landmark keys: at least one byte, not interpreted by the
  // store, freed with the document. Replaces the earlier index; while the new one is being written,
  // and after a crash during that, there may be none. Takes long for many bytes, and keeps other
  // changes of the catalog waiting for one piece at most. NOT_FOUND: the owner is not a published
  // document, or it was removed meanwhile. REQUIRES: one caller at a time per owner.
  virtual absl::Status PutIndex(OwnerId owner, absl::string_view bytes) = 0;
  // Returns the index. NOT_FOUND: the document has none.
  virtual absl::StatusOr<std::string> ReadIndex(OwnerId owner) = 0;

  // Sessions' own chunks: not durable across a reopen, freed by FreeSession.
  virtual absl::StatusOr<OwnerId> NewSessionOwner() = 0;
  virtual absl::Status PutSessionChunk(ChunkRef ref, const ChunkRecord& chunk) = 0;
  virtual absl::Status FreeSession(OwnerId owner) = 0;

  // Makes a backup in `directory`, which is made if it is missing, while the store is in use; then
  // removes all backups but the latest `keep` (0: removes none). Blocks while it copies. ABORTED:
  // another backup is being made there; INVALID_ARGUMENT: one of `directory` and the store's
  // directory lies in the other; UNIMPLEMENTED: the store makes no backups. An error leaves no
  // backup.
  virtual absl::StatusOr<BackupInfo> Backup(const std::string& directory, uint32_t keep) {
    (void)directory, (void)keep;
    return absl::UnimplementedError("backups: the store is in memory only");
  }
  // Returns the backups in `directory`, oldest first, also damaged ones. NOT_FOUND: it has none.
  virtual absl::StatusOr<std::vector<BackupInfo>> ListBackups(const std::string& directory) {
    (void)directory;
    return absl::UnimplementedError("backups: the store is in memory only");
  }

  virtual StoreState state() = 0;
};

// A store in memory only, for tests and machines without RocksDB.
std::unique_ptr<DocumentStore> CreateMemoryStore();

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_DOCUMENT_STORE_H_
