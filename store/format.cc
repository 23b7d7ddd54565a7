#include "store/format.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "store/crc32c.h"
#include "store/metadata.h"
#include "store/record.h"

namespace recollect::store {
namespace {

constexpr size_t kLandmarkHeaderBytes = 8;
constexpr size_t kIndexHeaderBytes = 12;

RecordWriter Writer(RecordType type, size_t payload_bytes, uint8_t version = kRecordVersion) {
  return {static_cast<uint8_t>(type), payload_bytes, version};
}

absl::StatusOr<absl::string_view> Open(RecordType type, absl::string_view key,
                                       absl::string_view record, absl::string_view what,
                                       uint8_t newest = kRecordVersion) {
  return OpenRecord(static_cast<uint8_t>(type), key, record, what, kRecordVersion, newest);
}

absl::Status WrongSize(absl::string_view what, absl::string_view payload) {
  return Damaged(what, absl::StrCat("payload of ", payload.size(), " bytes does not parse"));
}

std::string EncodeBytes(RecordType type, absl::string_view key, absl::string_view bytes) {
  RecordWriter out = Writer(type, bytes.size());
  out.Raw(bytes.data(), bytes.size());
  return std::move(out).Finish(key);
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

template <typename T>
void PutPrefix(RecordWriter& out, const T& document) {
  out.String(document.pattern);
  out.I64(document.state_bytes);
  out.I64(document.first_state_part);
}

// Whether the fields are those of a prefix, or, where it may be none, empty.
template <typename T>
bool GetPrefix(RecordReader& in, bool may_be_none, T& document) {
  document.pattern = in.String();
  document.state_bytes = in.Count();
  document.first_state_part = in.Count();
  if (document.pattern.empty()) return may_be_none && document.state_bytes == 0;
  return document.chunks == 0;
}

void PutCatalog(RecordWriter& out, const CatalogRecord& catalog) {
  out.U64(catalog.changes);
  out.U64(catalog.documents);
  out.U64(catalog.names);
}

CatalogRecord GetCatalog(RecordReader& in) {
  return {in.Number<uint64_t>(), in.Number<uint64_t>(), in.Number<uint64_t>()};
}

std::string EncodeInfo(RecordType type, absl::string_view key, const DocumentInfo& info) {
  RecordWriter out = Writer(type, 256, VersionOf(info));
  out.U64(static_cast<uint64_t>(info.owner));
  out.U8(info.from_tokens ? 1 : 0);
  out.I64(info.bytes);
  out.I64(info.tokens);
  out.I64(info.chunks);
  out.I64(info.created_unix_ms);
  out.I64(info.stored_bytes);
  out.String(info.id);
  out.String(info.fingerprint);
  out.String(info.sha256);
  if (!info.metadata.empty()) {
    out.U8(info.text ? 1 : 0);
    PutPrefix(out, info);
    out.String(info.metadata);
  } else if (info.kind() == DocumentKind::kPrefix) {
    PutPrefix(out, info);
  }
  return std::move(out).Finish(key);
}

// Whether the fields that follow those of version 1 are such as a document may have.
bool GetRest(RecordReader& in, uint8_t version, DocumentInfo& info) {
  info.text = version == kTextRecordVersion;
  if (version == kPrefixRecordVersion) return GetPrefix(in, /*may_be_none=*/false, info);
  if (version != kMetadataRecordVersion) return true;
  info.text = in.Flag();
  const bool sound = GetPrefix(in, /*may_be_none=*/true, info);
  info.metadata = in.String();
  return sound && !(info.text && !info.pattern.empty()) && !info.metadata.empty() &&
         std::ssize(info.metadata) <= kMaxMetadataBytes;
}

// `newest`: of the versions that records of this type have.
absl::StatusOr<DocumentInfo> DecodeInfo(RecordType type, absl::string_view key,
                                        absl::string_view record, absl::string_view what,
                                        uint8_t newest) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(type, key, record, what, newest));
  RecordReader in(payload);
  DocumentInfo info;
  info.owner = OwnerId{in.Number<uint64_t>()};
  info.from_tokens = in.Flag();
  info.bytes = in.Count();
  info.tokens = in.Count();
  info.chunks = in.Count();
  info.created_unix_ms = in.Number<int64_t>();
  info.stored_bytes = in.Count();
  info.id = in.String();
  info.fingerprint = in.String();
  info.sha256 = in.String();
  const bool sound = GetRest(in, static_cast<uint8_t>(record[0]), info);
  if (!sound || !in.done()) return WrongSize(what, payload);
  return info;
}

}  // namespace

void CatalogRecord::Add(absl::string_view key) {
  ++documents;
  names += Crc32c(key);
}

void CatalogRecord::Subtract(absl::string_view key) {
  --documents;
  names -= Crc32c(key);
}

std::string EncodeMeta(absl::string_view key, const MetaRecord& meta) {
  RecordWriter out = Writer(RecordType::kMeta, 12);
  out.U32(meta.database_version);
  out.U64(meta.next_owner);
  return std::move(out).Finish(key);
}

std::string EncodeCatalog(absl::string_view key, const CatalogRecord& catalog) {
  RecordWriter out = Writer(RecordType::kCatalog, 24);
  PutCatalog(out, catalog);
  return std::move(out).Finish(key);
}

std::string EncodeHead(absl::string_view key, const HeadRecord& head) {
  RecordWriter out = Writer(RecordType::kHead, 44);
  PutCatalog(out, head.catalog);
  out.U64(head.manifest);
  out.U64(head.manifest_bytes);
  out.U32(head.manifest_crc);
  return std::move(out).Finish(key);
}

std::string EncodeDocument(absl::string_view key, const DocumentInfo& info) {
  return EncodeInfo(RecordType::kDocument, key, info);
}

std::string EncodeRemoved(absl::string_view key, const DocumentInfo& info) {
  DocumentInfo removed = info;
  removed.metadata.clear();  // nobody asks for it any more
  return EncodeInfo(RecordType::kRemoved, key, removed);
}

std::string EncodeIngest(absl::string_view key, const IngestState& state) {
  const IngestProgress& progress = state.progress;
  RecordWriter out = Writer(RecordType::kIngest, 256, VersionOf(progress));
  out.U64(static_cast<uint64_t>(progress.owner));
  out.U8(progress.from_tokens ? 1 : 0);
  out.I64(progress.input_offset);
  out.I64(progress.bytes);
  out.I64(progress.tokens);
  out.I64(progress.chunks);
  out.I64(state.width);
  out.I64(state.d_k);
  out.I64(state.chunk_bytes);
  out.String(progress.id);
  out.String(progress.fingerprint);
  const uint8_t version = VersionOf(progress);
  if (version != kRecordVersion) PutPrefix(out, progress);
  if (version == kRefreshRecordVersion) out.U64(static_cast<uint64_t>(progress.replaces));
  return std::move(out).Finish(key);
}

std::string EncodeResume(absl::string_view key, absl::string_view resume_state) {
  return EncodeBytes(RecordType::kResume, key, resume_state);
}

std::string EncodeText(absl::string_view key, absl::string_view text) {
  return EncodeBytes(RecordType::kText, key, text);
}

std::string EncodeTokens(absl::string_view key, std::span<const int32_t> tokens) {
  return EncodeBytes(RecordType::kTokens, key,
                     {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

std::string EncodeState(absl::string_view key, absl::string_view part) {
  return EncodeBytes(RecordType::kState, key, part);
}

std::string EncodeLandmarks(absl::string_view key, std::span<const Bf16> keys, int64_t d_k) {
  RECOLLECT_CHECK(d_k >= 1 && keys.size() % static_cast<size_t>(d_k) == 0);
  RecordWriter out = Writer(RecordType::kLandmarks, kLandmarkHeaderBytes + keys.size_bytes());
  out.U32(static_cast<uint64_t>(d_k));
  out.U32(keys.size() / static_cast<size_t>(d_k));
  out.Raw(keys.data(), keys.size_bytes());
  return std::move(out).Finish(key);
}

std::string EncodeIndex(absl::string_view key, const IndexPiece& piece) {
  RecordWriter out = Writer(RecordType::kIndex, kIndexHeaderBytes + piece.bytes.size());
  out.I64(piece.total_bytes);
  out.U32(piece.total_crc);
  out.Raw(piece.bytes.data(), piece.bytes.size());
  return std::move(out).Finish(key);
}

absl::StatusOr<MetaRecord> DecodeMeta(absl::string_view key, absl::string_view record) {
  constexpr absl::string_view kWhat = "meta record of the database";
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kMeta, key, record, kWhat));
  RecordReader in(payload);
  MetaRecord meta;
  meta.database_version = in.Number<uint32_t>();
  // The version first: the rest of a newer record may be anything.
  if (meta.database_version > kDatabaseVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("database has format version ", meta.database_version,
                     ", this program knows up to ", kDatabaseVersion));
  }
  meta.next_owner = in.Number<uint64_t>();
  if (!in.done() || meta.database_version == 0) return WrongSize(kWhat, payload);
  return meta;
}

absl::StatusOr<CatalogRecord> DecodeCatalog(absl::string_view key, absl::string_view record,
                                            absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kCatalog, key, record, what));
  RecordReader in(payload);
  const CatalogRecord catalog = GetCatalog(in);
  if (!in.done()) return WrongSize(what, payload);
  return catalog;
}

absl::StatusOr<HeadRecord> DecodeHead(absl::string_view key, absl::string_view record,
                                      absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kHead, key, record, what));
  RecordReader in(payload);
  const HeadRecord head{GetCatalog(in), in.Number<uint64_t>(), in.Number<uint64_t>(),
                        in.Number<uint32_t>()};
  if (!in.done()) return WrongSize(what, payload);
  return head;
}

absl::StatusOr<DocumentInfo> DecodeDocument(absl::string_view key, absl::string_view record,
                                            absl::string_view what) {
  return DecodeInfo(RecordType::kDocument, key, record, what, kMetadataRecordVersion);
}

absl::StatusOr<DocumentInfo> DecodeRemoved(absl::string_view key, absl::string_view record,
                                           absl::string_view what) {
  return DecodeInfo(RecordType::kRemoved, key, record, what, kTextRecordVersion);
}

absl::StatusOr<IngestState> DecodeIngest(absl::string_view key, absl::string_view record,
                                         absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload,
                   Open(RecordType::kIngest, key, record, what, kRefreshRecordVersion));
  RecordReader in(payload);
  IngestState state;
  IngestProgress& progress = state.progress;
  progress.owner = OwnerId{in.Number<uint64_t>()};
  progress.from_tokens = in.Flag();
  progress.input_offset = in.Count();
  progress.bytes = in.Count();
  progress.tokens = in.Count();
  progress.chunks = in.Count();
  state.width = in.Count();
  state.d_k = in.Count();
  state.chunk_bytes = in.Count();
  progress.text = progress.chunks > 0 && state.width == 0;
  progress.id = in.String();
  progress.fingerprint = in.String();
  const auto version = static_cast<uint8_t>(record[0]);
  const bool refresh = version == kRefreshRecordVersion;
  bool sound = version == kRecordVersion || GetPrefix(in, refresh, progress);
  if (refresh) {
    progress.replaces = OwnerId{in.Number<uint64_t>()};
    sound = sound && progress.replaces != OwnerId{};
  }
  if (!sound || !in.done()) return WrongSize(what, payload);
  return state;
}

absl::StatusOr<std::string> DecodeResume(absl::string_view key, absl::string_view record,
                                         absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kResume, key, record, what));
  return std::string(payload);
}

absl::StatusOr<std::string> DecodeText(absl::string_view key, absl::string_view record,
                                       absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kText, key, record, what));
  if (payload.size() > kTextPieceBytes) return WrongSize(what, payload);
  return std::string(payload);
}

absl::StatusOr<std::vector<int32_t>> DecodeTokens(absl::string_view key, absl::string_view record,
                                                  absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kTokens, key, record, what));
  RecordReader in(payload);
  auto tokens = in.Rest<int32_t>();
  if (!in.done() || tokens.size() > kTokenPieceCount) return WrongSize(what, payload);
  return tokens;
}

absl::StatusOr<std::string> DecodeState(absl::string_view key, absl::string_view record,
                                        absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kState, key, record, what));
  if (payload.empty() || payload.size() > kStatePartBytes) return WrongSize(what, payload);
  return std::string(payload);
}

absl::StatusOr<LandmarkSegmentView> ViewLandmarks(absl::string_view key, absl::string_view record,
                                                  absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload,
                   Open(RecordType::kLandmarks, key, record, what));
  RecordReader in(payload);
  LandmarkSegmentView segment;
  segment.d_k = in.Number<uint32_t>();
  segment.count = in.Number<uint32_t>();
  const bool sound = payload.size() >= kLandmarkHeaderBytes && segment.d_k >= 1 &&
                     segment.count >= 1 && segment.count <= kSegmentKeys &&
                     payload.size() - kLandmarkHeaderBytes ==
                         static_cast<uint64_t>(segment.d_k * segment.count) * sizeof(Bf16);
  if (!sound) return WrongSize(what, payload);
  segment.bytes = payload.substr(kLandmarkHeaderBytes);
  return segment;
}

absl::StatusOr<LandmarkSegment> DecodeLandmarks(absl::string_view key, absl::string_view record,
                                                absl::string_view what) {
  ASSIGN_OR_RETURN(const LandmarkSegmentView view, ViewLandmarks(key, record, what));
  LandmarkSegment segment;
  segment.d_k = view.d_k;
  segment.keys.resize(view.bytes.size() / sizeof(Bf16));
  std::memcpy(segment.keys.data(), view.bytes.data(), view.bytes.size());
  return segment;
}

absl::StatusOr<IndexPiece> DecodeIndex(absl::string_view key, absl::string_view record,
                                       absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kIndex, key, record, what));
  RecordReader in(payload);
  IndexPiece piece;
  piece.total_bytes = in.Count();
  piece.total_crc = in.Number<uint32_t>();
  const auto bytes = in.Rest<char>();
  const auto size = static_cast<int64_t>(bytes.size());
  if (!in.done() || size < 1 || size > std::min(kIndexPieceBytes, piece.total_bytes)) {
    return WrongSize(what, payload);
  }
  piece.bytes.assign(bytes.begin(), bytes.end());
  return piece;
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
