#include "store/format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "store/crc32c.h"

// Arrays of numbers are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);

namespace recollect::store {
namespace {

constexpr size_t kHeaderBytes = 8;
constexpr size_t kCheckedHeaderBytes = 4;  // version, type, zero; the checksum itself follows
constexpr size_t kChunkHeaderBytes = 24;
constexpr size_t kLandmarkHeaderBytes = 8;

std::string BigEndian(uint64_t value) {
  std::string out(8, '\0');
  for (int i = 7; i >= 0; --i, value >>= 8) out[static_cast<size_t>(i)] = static_cast<char>(value);
  return out;
}

// Builds one record; the checksum is filled in last.
class Writer {
 public:
  Writer(RecordType type, size_t payload_bytes, uint8_t version = kRecordVersion) {
    out_.reserve(kHeaderBytes + payload_bytes);
    U8(version);
    U8(static_cast<uint8_t>(type));
    out_.append(kHeaderBytes - 2, '\0');
  }
  void U8(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void U32(uint64_t value) {
    RECOLLECT_CHECK(value <= std::numeric_limits<uint32_t>::max());
    const auto narrow = static_cast<uint32_t>(value);
    Raw(&narrow, sizeof(narrow));
  }
  void U64(uint64_t value) { Raw(&value, sizeof(value)); }
  void I64(int64_t value) { U64(static_cast<uint64_t>(value)); }
  void String(absl::string_view value) {
    U32(value.size());
    Raw(value.data(), value.size());
  }
  void Raw(const void* bytes, size_t n) { out_.append(static_cast<const char*>(bytes), n); }

  std::string Finish(absl::string_view key) && {
    const absl::string_view bytes = out_;
    uint32_t crc = Crc32c(key);
    crc = Crc32c(bytes.substr(0, kCheckedHeaderBytes), crc);
    crc = Crc32c(bytes.substr(kHeaderBytes), crc);
    std::memcpy(out_.data() + kCheckedHeaderBytes, &crc, sizeof(crc));
    return std::move(out_);
  }

 private:
  std::string out_;
};

// Takes a payload apart. Reading past the end or leaving bytes over shows in ok(), so that callers
// read all fields and ask once.
class Reader {
 public:
  explicit Reader(absl::string_view payload) : rest_(payload) {}
  template <typename T>
  T Number() {
    static_assert(std::is_integral_v<T>);
    T value{};
    if (Has(sizeof(T))) {
      std::memcpy(&value, rest_.data(), sizeof(T));
      rest_.remove_prefix(sizeof(T));
    }
    return value;
  }
  // A count: never negative in a sound record.
  int64_t Count() {
    const auto value = Number<int64_t>();
    ok_ = ok_ && value >= 0;
    return value;
  }
  bool Flag() {
    const auto value = Number<uint8_t>();
    ok_ = ok_ && value <= 1;
    return value == 1;
  }
  std::string String() {
    const auto size = Number<uint32_t>();
    if (!Has(size)) return {};
    std::string out(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return out;
  }
  template <typename T>
  std::vector<T> Rest() {
    ok_ = ok_ && rest_.size() % sizeof(T) == 0;
    if (!ok_) return {};
    std::vector<T> out(rest_.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), rest_.data(), rest_.size());
    rest_ = {};
    return out;
  }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  bool Has(size_t n) {
    ok_ = ok_ && rest_.size() >= n;
    return ok_;
  }
  absl::string_view rest_;
  bool ok_ = true;
};

absl::Status Damaged(absl::string_view what, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(what, ": ", why));
}

// The payload of a sound record of this type, of a version up to `newest`.
absl::StatusOr<absl::string_view> Open(RecordType type, absl::string_view key,
                                       absl::string_view record, absl::string_view what,
                                       uint8_t newest = kRecordVersion) {
  if (record.size() < kHeaderBytes) {
    return Damaged(what, absl::StrCat("record of ", record.size(), " bytes, shorter than the ",
                                      kHeaderBytes, " of its header"));
  }
  uint32_t stored;
  std::memcpy(&stored, record.data() + kCheckedHeaderBytes, sizeof(stored));
  uint32_t crc = Crc32c(key);
  crc = Crc32c(record.substr(0, kCheckedHeaderBytes), crc);
  crc = Crc32c(record.substr(kHeaderBytes), crc);
  if (crc != stored) {
    return Damaged(what, absl::StrCat("checksum ", absl::Hex(crc, absl::kZeroPad8), ", expected ",
                                      absl::Hex(stored, absl::kZeroPad8)));
  }
  const auto version = static_cast<uint8_t>(record[0]);
  if (version < kRecordVersion || version > newest) {
    return Damaged(what, absl::StrCat("record version ", version, ", expected ", kRecordVersion,
                                      newest > kRecordVersion ? absl::StrCat(" to ", newest) : ""));
  }
  if (static_cast<uint8_t>(record[1]) != static_cast<uint8_t>(type) || record[2] != 0 ||
      record[3] != 0) {
    return Damaged(what, absl::StrCat("record type ", static_cast<uint8_t>(record[1]),
                                      ", expected ", static_cast<int>(type)));
  }
  return record.substr(kHeaderBytes);
}

absl::Status WrongSize(absl::string_view what, absl::string_view payload) {
  return Damaged(what, absl::StrCat("payload of ", payload.size(), " bytes does not parse"));
}

// What tells a prefix from a document of chunks, the same in all records that name it: its pattern,
// and where its state lies.
template <typename T>
uint8_t VersionOf(const T& document) {
  return document.pattern.empty() ? kRecordVersion : kPrefixRecordVersion;
}

template <typename T>
void PutPrefix(Writer& out, const T& document) {
  if (VersionOf(document) != kPrefixRecordVersion) return;
  out.String(document.pattern);
  out.I64(document.state_bytes);
  out.I64(document.first_state_part);
}

// Whether the fields are those of a prefix.
template <typename T>
bool GetPrefix(Reader& in, absl::string_view record, T& document) {
  if (static_cast<uint8_t>(record[0]) != kPrefixRecordVersion) return true;
  document.pattern = in.String();
  document.state_bytes = in.Count();
  document.first_state_part = in.Count();
  return !document.pattern.empty() && document.chunks == 0;
}

std::string EncodeInfo(RecordType type, absl::string_view key, const DocumentInfo& info) {
  Writer out(type, 256, VersionOf(info));
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
  PutPrefix(out, info);
  return std::move(out).Finish(key);
}

absl::StatusOr<DocumentInfo> DecodeInfo(RecordType type, absl::string_view key,
                                        absl::string_view record, absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload,
                   Open(type, key, record, what, kPrefixRecordVersion));
  Reader in(payload);
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
  if (!GetPrefix(in, record, info) || !in.done()) return WrongSize(what, payload);
  return info;
}

}  // namespace

std::string MetaKey() { return "meta"; }
std::string DocumentKey(absl::string_view id) { return absl::StrCat("d", id); }
std::string IngestKey(absl::string_view id) { return absl::StrCat("i", id); }
std::string RemovedKey(OwnerId owner) { return absl::StrCat("r", OwnerKey(owner)); }
std::string ResumeKey(OwnerId owner) { return absl::StrCat("s", OwnerKey(owner)); }
std::string OwnerKey(OwnerId owner) { return BigEndian(static_cast<uint64_t>(owner)); }
std::string PieceKey(OwnerId owner, int64_t index) {
  return OwnerKey(owner) + BigEndian(static_cast<uint64_t>(index));
}

std::string PieceName(absl::string_view kind, OwnerId owner, int64_t index) {
  return absl::StrCat(kind, " ", index, " of owner ", static_cast<uint64_t>(owner));
}

std::string EncodeMeta(absl::string_view key, const MetaRecord& meta) {
  Writer out(RecordType::kMeta, 12);
  out.U32(meta.database_version);
  out.U64(meta.next_owner);
  return std::move(out).Finish(key);
}

std::string EncodeDocument(absl::string_view key, const DocumentInfo& info) {
  return EncodeInfo(RecordType::kDocument, key, info);
}

std::string EncodeRemoved(absl::string_view key, const DocumentInfo& info) {
  return EncodeInfo(RecordType::kRemoved, key, info);
}

std::string EncodeIngest(absl::string_view key, const IngestState& state) {
  const IngestProgress& progress = state.progress;
  Writer out(RecordType::kIngest, 256, VersionOf(progress));
  out.U64(static_cast<uint64_t>(progress.owner));
  out.U8(progress.from_tokens ? 1 : 0);
  out.I64(progress.input_offset);
  out.I64(progress.bytes);
  out.I64(progress.tokens);
  out.I64(progress.chunks);
  out.I64(state.width);
  out.I64(state.d_r);
  out.I64(state.chunk_bytes);
  out.String(progress.id);
  out.String(progress.fingerprint);
  PutPrefix(out, progress);
  return std::move(out).Finish(key);
}

std::string EncodeResume(absl::string_view key, absl::string_view resume_state) {
  Writer out(RecordType::kResume, resume_state.size());
  out.Raw(resume_state.data(), resume_state.size());
  return std::move(out).Finish(key);
}

std::string EncodeText(absl::string_view key, absl::string_view text) {
  Writer out(RecordType::kText, text.size());
  out.Raw(text.data(), text.size());
  return std::move(out).Finish(key);
}

std::string EncodeTokens(absl::string_view key, std::span<const int32_t> tokens) {
  Writer out(RecordType::kTokens, tokens.size_bytes());
  out.Raw(tokens.data(), tokens.size_bytes());
  return std::move(out).Finish(key);
}

std::string EncodeState(absl::string_view key, absl::string_view part) {
  Writer out(RecordType::kState, part.size());
  out.Raw(part.data(), part.size());
  return std::move(out).Finish(key);
}

std::string EncodeChunk(absl::string_view key, const ChunkRecord& chunk) {
  RECOLLECT_CHECK(chunk.rows >= 1 && chunk.states.size() % static_cast<size_t>(chunk.rows) == 0);
  const size_t states_bytes = chunk.states.size() * sizeof(Bf16);
  Writer out(RecordType::kChunk, kChunkHeaderBytes + states_bytes);
  out.U32(static_cast<uint64_t>(chunk.rows));
  out.U32(chunk.states.size() / static_cast<size_t>(chunk.rows));
  out.I64(chunk.text_begin);
  out.I64(chunk.text_end);
  out.Raw(chunk.states.data(), states_bytes);
  return std::move(out).Finish(key);
}

std::string EncodeLandmarks(absl::string_view key, std::span<const Bf16> keys, int64_t d_r) {
  RECOLLECT_CHECK(d_r >= 1 && keys.size() % static_cast<size_t>(d_r) == 0);
  Writer out(RecordType::kLandmarks, kLandmarkHeaderBytes + keys.size_bytes());
  out.U32(static_cast<uint64_t>(d_r));
  out.U32(keys.size() / static_cast<size_t>(d_r));
  out.Raw(keys.data(), keys.size_bytes());
  return std::move(out).Finish(key);
}

absl::StatusOr<MetaRecord> DecodeMeta(absl::string_view key, absl::string_view record) {
  constexpr absl::string_view kWhat = "meta record of the database";
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kMeta, key, record, kWhat));
  Reader in(payload);
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

absl::StatusOr<DocumentInfo> DecodeDocument(absl::string_view key, absl::string_view record,
                                            absl::string_view what) {
  return DecodeInfo(RecordType::kDocument, key, record, what);
}

absl::StatusOr<DocumentInfo> DecodeRemoved(absl::string_view key, absl::string_view record,
                                           absl::string_view what) {
  return DecodeInfo(RecordType::kRemoved, key, record, what);
}

absl::StatusOr<IngestState> DecodeIngest(absl::string_view key, absl::string_view record,
                                         absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload,
                   Open(RecordType::kIngest, key, record, what, kPrefixRecordVersion));
  Reader in(payload);
  IngestState state;
  IngestProgress& progress = state.progress;
  progress.owner = OwnerId{in.Number<uint64_t>()};
  progress.from_tokens = in.Flag();
  progress.input_offset = in.Count();
  progress.bytes = in.Count();
  progress.tokens = in.Count();
  progress.chunks = in.Count();
  state.width = in.Count();
  state.d_r = in.Count();
  state.chunk_bytes = in.Count();
  progress.id = in.String();
  progress.fingerprint = in.String();
  if (!GetPrefix(in, record, progress) || !in.done()) return WrongSize(what, payload);
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
  Reader in(payload);
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

absl::StatusOr<ChunkRecord> DecodeChunk(absl::string_view key, absl::string_view record,
                                        absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kChunk, key, record, what));
  Reader in(payload);
  ChunkRecord chunk;
  const auto rows = in.Number<uint32_t>();
  const auto width = in.Number<uint32_t>();
  chunk.text_begin = in.Count();
  chunk.text_end = in.Count();
  chunk.states = in.Rest<Bf16>();
  const bool sound = in.done() && rows >= 1 && rows <= kChunkTokens && width >= 1 &&
                     chunk.states.size() == uint64_t{rows} * width &&
                     chunk.text_begin <= chunk.text_end;
  if (!sound) return WrongSize(what, payload);
  chunk.rows = static_cast<int32_t>(rows);
  return chunk;
}

absl::StatusOr<LandmarkSegment> DecodeLandmarks(absl::string_view key, absl::string_view record,
                                                absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload,
                   Open(RecordType::kLandmarks, key, record, what));
  Reader in(payload);
  LandmarkSegment segment;
  const auto d_r = in.Number<uint32_t>();
  const auto count = in.Number<uint32_t>();
  segment.d_r = d_r;
  segment.keys = in.Rest<Bf16>();
  const bool sound = in.done() && d_r >= 1 && count >= 1 && count <= kSegmentKeys &&
                     segment.keys.size() == uint64_t{d_r} * count;
  if (!sound) return WrongSize(what, payload);
  return segment;
}

int64_t ChunkRecordBytes(int64_t rows, int64_t width) {
  return static_cast<int64_t>(kHeaderBytes + kChunkHeaderBytes) +
         rows * width * static_cast<int64_t>(sizeof(Bf16));
}

int64_t StoredBytes(const IngestState& state) {
  constexpr int64_t kHeader = kHeaderBytes;
  const IngestProgress& progress = state.progress;
  const auto pieces = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  return state.chunk_bytes + progress.state_bytes + kHeader * StateParts(progress.state_bytes) +
         progress.bytes + kHeader * pieces(progress.bytes, kTextPieceBytes) +
         progress.tokens * static_cast<int64_t>(sizeof(int32_t)) +
         kHeader * pieces(progress.tokens, kTokenPieceCount) +
         progress.chunks * state.d_r * static_cast<int64_t>(sizeof(Bf16)) +
         static_cast<int64_t>(kHeaderBytes + kLandmarkHeaderBytes) *
             pieces(progress.chunks, kSegmentKeys);
}

}  // namespace recollect::store
