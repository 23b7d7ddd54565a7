#include "store/format.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "store/crc32c.h"
#include "store/metadata.h"

namespace recollect::store {
namespace {

constexpr size_t kLandmarkHeaderBytes = 8;
constexpr size_t kIndexHeaderBytes = 12;

std::string EncodeBytes(RecordType type, Bytes key, Bytes bytes) {
  RecordWriter out(type, bytes.size());
  out.Raw(bytes.data(), bytes.size());
  return std::move(out).Finish(key);
}

absl::StatusOr<std::string> DecodeBytes(RecordType type, Bytes key, Bytes record, Bytes what,
                                        size_t least, size_t most) {
  ASSIGN_OR_RETURN(const Bytes payload, OpenRecord(type, key, record, what));
  if (payload.size() < least || payload.size() > most) return DoesNotParse(what, payload);
  return std::string(payload);
}

// What tells a prefix from a document of chunks, the same in all records that name it: its pattern,
// and where its state lies.
uint8_t VersionOf(const IngestProgress& progress) {
  if (progress.replaces != OwnerId{}) return kRefreshRecordVersion;
  return progress.pattern.empty() ? kRecordVersion : kPrefixRecordVersion;
}

uint8_t VersionOf(const DocumentInfo& info) {
  if (!info.metadata.empty()) return kMetadataRecordVersion;
  switch (info.kind()) {
    case DocumentKind::kChunks:
      return kRecordVersion;
    case DocumentKind::kPrefix:
      return kPrefixRecordVersion;
    case DocumentKind::kText:
      return kTextRecordVersion;
  }
  return kRecordVersion;
}

template <typename Record, typename T>
void PrefixFields(Record& record, T& document) {
  record.Fields(document.pattern, document.state_bytes, document.first_state_part);
}

// Whether the fields are those of a prefix, or, where it may be none, empty.
template <typename T>
bool GetPrefix(RecordReader& in, bool may_be_none, T& document) {
  PrefixFields(in, document);
  if (document.pattern.empty()) return may_be_none && document.state_bytes == 0;
  return document.chunks == 0;
}

// The fields of a record, in their order: for writing and for reading.
constexpr auto kMetaFields = [](auto& record, auto& meta) {
  record.Fields(meta.database_version, meta.next_owner);
};
constexpr auto kCatalogFields = [](auto& record, auto& catalog) {
  record.Fields(catalog.changes, catalog.documents, catalog.names);
};
constexpr auto kHeadFields = [](auto& record, auto& head) {
  kCatalogFields(record, head.catalog);
  record.Fields(head.manifest, head.manifest_bytes, head.manifest_crc);
};

template <typename Record, typename T>
void InfoFields(Record& record, T& info) {
  record.Fields(info.owner, info.from_tokens, info.bytes, info.tokens, info.chunks);
  record.Signed(info.created_unix_ms);
  record.Fields(info.stored_bytes, info.id, info.fingerprint, info.sha256);
}

template <typename Record, typename T>
void IngestFields(Record& record, T& state) {
  auto& progress = state.progress;
  record.Fields(progress.owner, progress.from_tokens, progress.input_offset, progress.bytes,
                progress.tokens, progress.chunks, state.width, state.d_k, state.chunk_bytes,
                progress.id, progress.fingerprint);
}

std::string EncodeInfo(RecordType type, Bytes key, const DocumentInfo& info) {
  RecordWriter out(type, 256, VersionOf(info));
  InfoFields(out, info);
  if (!info.metadata.empty()) {
    out.Fields(info.text);
    PrefixFields(out, info);
    out.Fields(info.metadata);
  } else if (info.kind() == DocumentKind::kPrefix) {
    PrefixFields(out, info);
  }
  return std::move(out).Finish(key);
}

// Whether the fields are such as a document may have.
bool GetInfo(RecordReader& in, DocumentInfo& info) {
  InfoFields(in, info);
  info.text = in.version() == kTextRecordVersion;
  if (in.version() == kPrefixRecordVersion) return GetPrefix(in, /*may_be_none=*/false, info);
  if (in.version() != kMetadataRecordVersion) return true;
  in.Fields(info.text);
  const bool sound = GetPrefix(in, /*may_be_none=*/true, info);
  in.Fields(info.metadata);
  return sound && !(info.text && !info.pattern.empty()) && !info.metadata.empty() &&
         std::ssize(info.metadata) <= kMaxMetadataBytes;
}

// Whether the fields are such as an ingest may have.
bool GetIngest(RecordReader& in, IngestState& state) {
  IngestProgress& progress = state.progress;
  IngestFields(in, state);
  progress.text = progress.chunks > 0 && state.width == 0;
  const bool refresh = in.version() == kRefreshRecordVersion;
  const bool sound = in.version() == kRecordVersion || GetPrefix(in, refresh, progress);
  if (!refresh) return sound;
  in.Fields(progress.replaces);
  return sound && progress.replaces != OwnerId{};
}

}  // namespace

void CatalogRecord::Add(Bytes key) {
  ++documents;
  names += Crc32c(key);
}

void CatalogRecord::Subtract(Bytes key) {
  --documents;
  names -= Crc32c(key);
}

std::string EncodeMeta(Bytes key, const MetaRecord& meta) {
  return EncodeFields(RecordType::kMeta, key, meta, kMetaFields);
}

std::string EncodeCatalog(Bytes key, const CatalogRecord& catalog) {
  return EncodeFields(RecordType::kCatalog, key, catalog, kCatalogFields);
}

std::string EncodeHead(Bytes key, const HeadRecord& head) {
  return EncodeFields(RecordType::kHead, key, head, kHeadFields);
}

std::string EncodeDocument(Bytes key, const DocumentInfo& info) {
  return EncodeInfo(RecordType::kDocument, key, info);
}

std::string EncodeRemoved(Bytes key, const DocumentInfo& info) {
  DocumentInfo removed = info;
  removed.metadata.clear();  // nobody asks for it any more
  return EncodeInfo(RecordType::kRemoved, key, removed);
}

std::string EncodeIngest(Bytes key, const IngestState& state) {
  const IngestProgress& progress = state.progress;
  const uint8_t version = VersionOf(progress);
  RecordWriter out(RecordType::kIngest, 256, version);
  IngestFields(out, state);
  if (version != kRecordVersion) PrefixFields(out, progress);
  if (version == kRefreshRecordVersion) out.Fields(progress.replaces);
  return std::move(out).Finish(key);
}

std::string EncodeResume(Bytes key, Bytes resume_state) {
  return EncodeBytes(RecordType::kResume, key, resume_state);
}

std::string EncodeText(Bytes key, Bytes text) { return EncodeBytes(RecordType::kText, key, text); }

std::string EncodeTokens(Bytes key, std::span<const int32_t> tokens) {
  return EncodeBytes(RecordType::kTokens, key,
                     {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

std::string EncodeState(Bytes key, Bytes part) {
  return EncodeBytes(RecordType::kState, key, part);
}

std::string EncodeLandmarks(Bytes key, std::span<const Bf16> keys, int64_t d_k) {
  RECOLLECT_CHECK(d_k >= 1 && keys.size() % static_cast<size_t>(d_k) == 0);
  RecordWriter out(RecordType::kLandmarks, kLandmarkHeaderBytes + keys.size_bytes());
  out.U32(static_cast<uint64_t>(d_k));
  out.U32(keys.size() / static_cast<size_t>(d_k));
  out.Raw(keys.data(), keys.size_bytes());
  return std::move(out).Finish(key);
}

std::string EncodeIndex(Bytes key, const IndexPiece& piece) {
  RecordWriter out(RecordType::kIndex, kIndexHeaderBytes + piece.bytes.size());
  out.Fields(piece.total_bytes, piece.total_crc);
  out.Raw(piece.bytes.data(), piece.bytes.size());
  return std::move(out).Finish(key);
}

absl::StatusOr<MetaRecord> DecodeMeta(Bytes key, Bytes record) {
  constexpr Bytes kWhat = "meta record of the database";
  ASSIGN_OR_RETURN(const Bytes payload, OpenRecord(RecordType::kMeta, key, record, kWhat));
  RecordReader in(payload, kRecordVersion);
  MetaRecord meta;
  in.Fields(meta.database_version);
  // The version first: the rest of a newer record may be anything.
  if (meta.database_version > kDatabaseVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("database has format version ", meta.database_version,
                     ", this program knows up to ", kDatabaseVersion));
  }
  in.Fields(meta.next_owner);
  if (!in.done() || meta.database_version == 0) return DoesNotParse(kWhat, payload);
  return meta;
}

absl::StatusOr<CatalogRecord> DecodeCatalog(Bytes key, Bytes record, Bytes what) {
  return DecodeFields<CatalogRecord>(RecordType::kCatalog, key, record, what, kCatalogFields);
}

absl::StatusOr<HeadRecord> DecodeHead(Bytes key, Bytes record, Bytes what) {
  return DecodeFields<HeadRecord>(RecordType::kHead, key, record, what, kHeadFields);
}

absl::StatusOr<DocumentInfo> DecodeDocument(Bytes key, Bytes record, Bytes what) {
  return DecodeFields<DocumentInfo>(RecordType::kDocument, key, record, what, GetInfo,
                                    kMetadataRecordVersion);
}

absl::StatusOr<DocumentInfo> DecodeRemoved(Bytes key, Bytes record, Bytes what) {
  return DecodeFields<DocumentInfo>(RecordType::kRemoved, key, record, what, GetInfo,
                                    kTextRecordVersion);
}

absl::StatusOr<IngestState> DecodeIngest(Bytes key, Bytes record, Bytes what) {
  return DecodeFields<IngestState>(RecordType::kIngest, key, record, what, GetIngest,
                                   kRefreshRecordVersion);
}

absl::StatusOr<std::string> DecodeResume(Bytes key, Bytes record, Bytes what) {
  return DecodeBytes(RecordType::kResume, key, record, what, 0, std::string::npos);
}

absl::StatusOr<std::string> DecodeText(Bytes key, Bytes record, Bytes what) {
  return DecodeBytes(RecordType::kText, key, record, what, 0, kTextPieceBytes);
}

absl::StatusOr<std::vector<int32_t>> DecodeTokens(Bytes key, Bytes record, Bytes what) {
  const auto read = [](RecordReader& in, std::vector<int32_t>& tokens) {
    tokens = in.Rest<int32_t>();
    return tokens.size() <= kTokenPieceCount;
  };
  return DecodeFields<std::vector<int32_t>>(RecordType::kTokens, key, record, what, read);
}

absl::StatusOr<std::string> DecodeState(Bytes key, Bytes record, Bytes what) {
  return DecodeBytes(RecordType::kState, key, record, what, 1, kStatePartBytes);
}

absl::StatusOr<LandmarkSegmentView> ViewLandmarks(Bytes key, Bytes record, Bytes what) {
  ASSIGN_OR_RETURN(const Bytes payload, OpenRecord(RecordType::kLandmarks, key, record, what));
  RecordReader in(payload, kRecordVersion);
  LandmarkSegmentView segment;
  segment.d_k = in.Get<uint32_t>();
  segment.count = in.Get<uint32_t>();
  const bool sound = payload.size() >= kLandmarkHeaderBytes && segment.d_k >= 1 &&
                     segment.count >= 1 && segment.count <= kSegmentKeys &&
                     payload.size() - kLandmarkHeaderBytes ==
                         static_cast<uint64_t>(segment.d_k * segment.count) * sizeof(Bf16);
  if (!sound) return DoesNotParse(what, payload);
  segment.bytes = payload.substr(kLandmarkHeaderBytes);
  return segment;
}

absl::StatusOr<LandmarkSegment> DecodeLandmarks(Bytes key, Bytes record, Bytes what) {
  ASSIGN_OR_RETURN(const LandmarkSegmentView view, ViewLandmarks(key, record, what));
  LandmarkSegment segment;
  segment.d_k = view.d_k;
  segment.keys.resize(view.bytes.size() / sizeof(Bf16));
  std::memcpy(segment.keys.data(), view.bytes.data(), view.bytes.size());
  return segment;
}

absl::StatusOr<IndexPiece> DecodeIndex(Bytes key, Bytes record, Bytes what) {
  const auto read = [](RecordReader& in, IndexPiece& piece) {
    in.Fields(piece.total_bytes, piece.total_crc);
    const auto bytes = in.Rest<char>();
    piece.bytes.assign(bytes.begin(), bytes.end());
    const int64_t size = std::ssize(bytes);
    return size >= 1 && size <= std::min(kIndexPieceBytes, piece.total_bytes);
  };
  return DecodeFields<IndexPiece>(RecordType::kIndex, key, record, what, read);
}

int64_t StoredBytes(const IngestState& state) {
  constexpr int64_t kHeader = kRecordHeaderBytes;
  const IngestProgress& progress = state.progress;
  const auto pieces = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  return state.chunk_bytes + progress.state_bytes + kHeader * StateParts(progress.state_bytes) +
         progress.bytes + kHeader * pieces(progress.bytes, kTextPieceBytes) +
         progress.tokens * int64_t{sizeof(int32_t)} +
         kHeader * pieces(progress.tokens, kTokenPieceCount) +
         progress.chunks * state.d_k * int64_t{sizeof(Bf16)} +
         (kHeader + int64_t{kLandmarkHeaderBytes}) *
             (state.d_k == 0 ? 0 : pieces(progress.chunks, kSegmentKeys));
}

}  // namespace recollect::store
