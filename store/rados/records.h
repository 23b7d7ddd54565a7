// Names of objects and the records that only the store over RADOS has. All other records are in
// store/format.h. Byte tables: docs/formats.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "store/pieces.h"

namespace recollect::store::rados {

// The version of the layout of a namespace as a whole.
inline constexpr uint32_t kPoolVersion = 1;

inline constexpr char kPoolObject[] = "recollect";   // key "pool": PoolRecord
inline constexpr char kCatalogObject[] = "catalog";  // documents, unfinished ingests, removed ones

// Keys of a head object.
inline constexpr char kEpochKey[] = "epoch";        // of the writer that may commit, a number
inline constexpr char kProgressKey[] = "progress";  // an ingest's record (format.h)
inline constexpr char kCursorKey[] = "cursor";      // a CursorRecord, of the same commit
inline constexpr char kFinalKey[] = "final";        // the document, once it is to be published
inline constexpr char kFinalCursorKey[] = "final cursor";
inline constexpr char kIndexKey[] = "index";      // an IndexHeadRecord
inline constexpr char kRemovedKey[] = "removed";  // there is no document any more: no new pins
inline constexpr char kExtentsPrefix[] = "e";     // and the commit's number, big-endian

// Locks of a head object.
inline constexpr char kWriterLock[] = "writer";
inline constexpr char kPinLock[] = "pin";
inline constexpr char kIndexLock[] = "index";  // while pieces of an index are put

// Keys of the catalog object, beside those of format.h.
inline constexpr Bytes kWriterPrefix = "w";
std::string WriterKey(Bytes id);  // WriterValue of the ingest of that id
std::string WriterValue(OwnerId owner, uint64_t epoch);
bool ParseWriter(Bytes value, OwnerId* owner, uint64_t* epoch);
std::string FreeingKey(OwnerId owner);  // its space is being freed

std::string ExtentsKey(int64_t commit);
// A head has the append point of its document under the epoch of the writer that published it: what
// an earlier writer left is another document's.
std::string AppendPointKey(Bytes epoch);

std::string HeadName(OwnerId owner);
// An object of records, the `number`-th of that writer.
std::string SegmentName(OwnerId owner, uint64_t epoch, uint64_t number);
std::string StatePartName(OwnerId owner, uint64_t epoch, int64_t number);
std::string IndexPieceName(OwnerId owner, uint64_t generation, int64_t number);
// Returns the owner of an object with one of these names.
std::optional<OwnerId> OwnerOfObject(Bytes name);

struct PoolRecord {
  uint32_t version = kPoolVersion;
  uint64_t next_owner = 1;  // this number and greater ones were never given out
};

// The point from which a writer goes on, as of a commit.
struct CursorRecord {
  int64_t commits = 0;  // whose extents count
  uint64_t state_epoch = 0;
};

using Kind = EntryKind;
inline constexpr int kKinds = 4;

// The place of a record in a segment.
struct Extent {
  Kind kind{};
  uint64_t epoch = 0;
  uint64_t segment = 0;
  uint32_t offset = 0;
  uint32_t bytes = 0;
  uint32_t count = 0;  // of its entries: chunks (1), bytes, tokens, keys
};

struct IndexHeadRecord {
  uint64_t generation = 0;
  int64_t total_bytes = 0;
};

// A record in a cache, under CacheKey: the record as it is in the pool. `document`: 32 bytes that
// tell a document from all others of all clusters.
std::string CacheKey(Bytes document, OwnerId owner, int64_t index);
std::string EncodeCached(Bytes key, Bytes record);
absl::StatusOr<std::string> DecodeCached(Bytes key, Bytes cached, Bytes what);

std::string EncodePool(Bytes key, const PoolRecord& pool);
std::string EncodeCursor(Bytes key, const CursorRecord& cursor);
std::string EncodeExtents(Bytes key, const std::vector<Extent>& extents);
std::string EncodeIndexHead(Bytes key, const IndexHeadRecord& index);

// Return DATA_LOSS, which names `what`, for bytes that Encode does not produce.
absl::StatusOr<PoolRecord> DecodePool(Bytes key, Bytes record, Bytes what);
absl::StatusOr<CursorRecord> DecodeCursor(Bytes key, Bytes record, Bytes what);
absl::StatusOr<std::vector<Extent>> DecodeExtents(Bytes key, Bytes record, Bytes what);
absl::StatusOr<IndexHeadRecord> DecodeIndexHead(Bytes key, Bytes record, Bytes what);

}  // namespace recollect::store::rados
