// Records as they are on disk, under the keys of store/keys.h: pure functions between structs and
// bytes. Byte tables, the rules for versions and a worked example: docs/formats.md.
//
// Records are framed as store/record.h says. The checksum covers the record's key, too, so a record
// found under another key counts as damaged. Every Decode returns DATA_LOSS, naming the record
// (`what`), for anything that Encode does not produce.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numeric/bf16.h"
#include "base/types.h"
#include "store/document_store.h"
#include "store/ingest_state.h"
#include "store/keys.h"
#include "store/record.h"

namespace recollect::store {

// For documents, removed documents and ingests that are prefixes: additional fields follow those of
// version 1.
inline constexpr uint8_t kPrefixRecordVersion = 2;
// For chunks with tokens, which precede the states.
inline constexpr uint8_t kTokensRecordVersion = 2;
// For chunks of MXINT8 numbers (ChunkRecord::mxint8), with tokens or with none of them.
inline constexpr uint8_t kMxInt8RecordVersion = 3;
// For documents and removed documents that are kept as text: the fields of version 1.
inline constexpr uint8_t kTextRecordVersion = 3;
// For documents with metadata: the fields of version 1, whether it is kept as text, the fields of
// version 2, of which those of a prefix may be empty, and the metadata.
inline constexpr uint8_t kMetadataRecordVersion = 4;
// For ingests that are refreshes: the fields of version 2, of which those of a prefix may be empty,
// and the owner that is replaced.
inline constexpr uint8_t kRefreshRecordVersion = 3;
// For chunks without states: their rows and their text range alone.
inline constexpr uint8_t kRangeRecordVersion = 4;
// The version of the database's layout as a whole. 2: the catalog counts its changes.
inline constexpr uint32_t kDatabaseVersion = 2;

// Text and tokens are kept in pieces of fixed size, so that a range is read without the rest.
inline constexpr int64_t kTextPieceBytes = int64_t{64} << 10;
inline constexpr int64_t kTokenPieceCount = int64_t{16} << 10;  // 64 KiB
inline constexpr int64_t kSegmentKeys = 1024;
// An index is kept in pieces of this size, numbered from here on, behind the segments of keys.
inline constexpr int64_t kIndexPieceBytes = int64_t{1} << 20;
inline constexpr int64_t kFirstIndexPiece = int64_t{1} << 48;

// The database's own record.
struct MetaRecord {
  uint32_t database_version = kDatabaseVersion;
  uint64_t next_owner = 1;  // this number and greater ones were never given out
};

// The catalog's own record, changed in the same batch as its documents.
struct CatalogRecord {
  uint64_t changes = 0;  // publications and deletions so far
  uint64_t documents = 0;
  uint64_t names = 0;  // sum of the CRC-32C of the documents' keys: differs for other documents
  // Counts a document in or out. The writer sets `changes`.
  void Add(Bytes key);
  void Subtract(Bytes key);
  friend bool operator==(const CatalogRecord&, const CatalogRecord&) = default;
};

// The least that a data directory must contain, in a file beside the database
// (store/rocks/db/head.h).
struct HeadRecord {
  CatalogRecord catalog;        // as of the last change that was acknowledged
  uint64_t manifest = 0;        // number of the MANIFEST; 0: none was recorded yet
  uint64_t manifest_bytes = 0;  // its size in bytes when recorded
  uint32_t manifest_crc = 0;    // of those bytes
};

struct LandmarkSegment {
  int64_t d_k = 0;
  std::vector<Bf16> keys;  // [1..1024, d_k]
};
// The same where it lies in its record.
struct LandmarkSegmentView {
  int64_t d_k = 0, count = 0;
  Bytes bytes;  // of Bf16 [count, d_k], at any address
};

// A piece of an index over landmark keys.
struct IndexPiece {
  int64_t total_bytes = 0;  // of the whole index, the same in all of its pieces
  uint32_t total_crc = 0;   // CRC-32C of it, likewise
  std::string bytes;        // 1 to kIndexPieceBytes, at most total_bytes
};

std::string EncodeMeta(Bytes key, const MetaRecord& meta);
std::string EncodeCatalog(Bytes key, const CatalogRecord& catalog);
std::string EncodeHead(Bytes key, const HeadRecord& head);
std::string EncodeDocument(Bytes key, const DocumentInfo& info);
std::string EncodeRemoved(Bytes key, const DocumentInfo& info);
std::string EncodeIngest(Bytes key, const IngestState& state);  // without resume_state
std::string EncodeResume(Bytes key, Bytes resume_state);
std::string EncodeText(Bytes key, Bytes text);
std::string EncodeTokens(Bytes key, std::span<const int32_t> tokens);
std::string EncodeState(Bytes key, Bytes part);
// REQUIRES: rows >= 1, states.size() % rows == 0, without states no tokens, and of `mxint8` what it
// says.
std::string EncodeChunk(Bytes key, const ChunkRecord& chunk);
// REQUIRES: d_k >= 1, keys.size() % d_k == 0.
std::string EncodeLandmarks(Bytes key, std::span<const Bf16> keys, int64_t d_k);
// REQUIRES: the sizes are those of an IndexPiece.
std::string EncodeIndex(Bytes key, const IndexPiece& piece);

// FAILED_PRECONDITION, naming both versions, if a newer version of this software wrote it.
absl::StatusOr<MetaRecord> DecodeMeta(Bytes key, Bytes record);
absl::StatusOr<CatalogRecord> DecodeCatalog(Bytes key, Bytes record, Bytes what);
absl::StatusOr<HeadRecord> DecodeHead(Bytes key, Bytes record, Bytes what);
absl::StatusOr<DocumentInfo> DecodeDocument(Bytes key, Bytes record, Bytes what);
absl::StatusOr<DocumentInfo> DecodeRemoved(Bytes key, Bytes record, Bytes what);
absl::StatusOr<IngestState> DecodeIngest(Bytes key, Bytes record, Bytes what);
absl::StatusOr<std::string> DecodeResume(Bytes key, Bytes record, Bytes what);
absl::StatusOr<std::string> DecodeText(Bytes key, Bytes record, Bytes what);
absl::StatusOr<std::vector<int32_t>> DecodeTokens(Bytes key, Bytes record, Bytes what);
absl::StatusOr<std::string> DecodeState(Bytes key, Bytes record, Bytes what);
absl::StatusOr<ChunkRecord> DecodeChunk(Bytes key, Bytes record, Bytes what);
absl::StatusOr<LandmarkSegment> DecodeLandmarks(Bytes key, Bytes record, Bytes what);
// The result points into `record`.
absl::StatusOr<LandmarkSegmentView> ViewLandmarks(Bytes key, Bytes record, Bytes what);
absl::StatusOr<IndexPiece> DecodeIndex(Bytes key, Bytes record, Bytes what);

// Bytes of a document's records, as counted by DocumentInfo::stored_bytes; an index is not counted.
int64_t ChunkRecordBytes(const ChunkRecord& chunk);
int64_t StoredBytes(const IngestState& state);

}  // namespace recollect::store
