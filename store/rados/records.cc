#include "store/rados/records.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "store/format.h"
#include "store/record.h"

namespace recollect::store::rados {
namespace {

constexpr uint8_t kVersion = 1;

std::string Hex16(uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

uint64_t Number(OwnerId owner) { return static_cast<uint64_t>(owner); }

RecordWriter Writer(RecordType type) { return {static_cast<uint8_t>(type), 64, kVersion}; }

absl::StatusOr<absl::string_view> Open(RecordType type, absl::string_view key,
                                       absl::string_view record, absl::string_view what) {
  return OpenRecord(static_cast<uint8_t>(type), key, record, what, kVersion, kVersion);
}

}  // namespace

std::string WriterKey(absl::string_view id) { return absl::StrCat("w", id); }

std::string WriterValue(OwnerId owner, uint64_t epoch) {
  return absl::StrCat(Number(owner), ".", epoch);
}

bool ParseWriter(absl::string_view value, OwnerId* owner, uint64_t* epoch) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(value, absl::MaxSplits('.', 1));
  uint64_t number = 0;
  if (!absl::SimpleAtoi(parts.first, &number) || !absl::SimpleAtoi(parts.second, epoch))
    return false;
  *owner = OwnerId{number};
  return true;
}

std::string FreeingKey(OwnerId owner) { return absl::StrCat("f", OwnerKey(owner)); }

std::string ExtentsKey(int64_t commit) {
  return absl::StrCat(kExtentsPrefix, OwnerKey(OwnerId{static_cast<uint64_t>(commit)}));
}

std::string HeadName(OwnerId owner) { return absl::StrCat("o", Hex16(Number(owner))); }

std::string SegmentName(OwnerId owner, uint64_t epoch, uint64_t number) {
  return absl::StrCat(HeadName(owner), ".", epoch, ".", number);
}

std::string StatePartName(OwnerId owner, uint64_t epoch, int64_t number) {
  return absl::StrCat(HeadName(owner), ".", epoch, ".s", number);
}

std::string IndexPieceName(OwnerId owner, uint64_t generation, int64_t number) {
  return absl::StrCat(HeadName(owner), ".i", generation, ".", number);
}

std::optional<OwnerId> OwnerOfObject(absl::string_view name) {
  if (name.size() < 17 || name[0] != 'o' || (name.size() > 17 && name[17] != '.')) return {};
  uint64_t number = 0;
  for (const char c : name.substr(1, 16)) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return {};
    number = number << 4 | static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return OwnerId{number};
}

std::string CacheKey(absl::string_view document, OwnerId owner, int64_t index) {
  return absl::StrCat(document, PieceKey(owner, index));
}

std::string EncodeCached(absl::string_view key, absl::string_view record) {
  RecordWriter out(static_cast<uint8_t>(RecordType::kCached), record.size(), kVersion);
  out.Raw(record.data(), record.size());
  return std::move(out).Finish(key);
}

absl::StatusOr<std::string> DecodeCached(absl::string_view key, absl::string_view cached,
                                         absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kCached, key, cached, what));
  return std::string(payload);
}

std::string EncodePool(absl::string_view key, const PoolRecord& pool) {
  RecordWriter out = Writer(RecordType::kPool);
  out.U32(pool.version);
  out.U64(pool.next_owner);
  return std::move(out).Finish(key);
}

absl::StatusOr<PoolRecord> DecodePool(absl::string_view key, absl::string_view record,
                                      absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kPool, key, record, what));
  RecordReader in(payload);
  PoolRecord pool;
  pool.version = in.Number<uint32_t>();
  // What follows is another version's affair.
  if (pool.version != kPoolVersion) return pool;
  pool.next_owner = in.Number<uint64_t>();
  if (!in.done()) return Damaged(what, absl::StrCat("payload of ", payload.size(), " bytes"));
  return pool;
}

std::string EncodeCursor(absl::string_view key, const CursorRecord& cursor) {
  RecordWriter out = Writer(RecordType::kCursor);
  out.I64(cursor.commits);
  out.U64(cursor.state_epoch);
  return std::move(out).Finish(key);
}

absl::StatusOr<CursorRecord> DecodeCursor(absl::string_view key, absl::string_view record,
                                          absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kCursor, key, record, what));
  RecordReader in(payload);
  CursorRecord cursor;
  cursor.commits = in.Count();
  cursor.state_epoch = in.Number<uint64_t>();
  if (!in.done()) return Damaged(what, absl::StrCat("payload of ", payload.size(), " bytes"));
  return cursor;
}

std::string EncodeExtents(absl::string_view key, const std::vector<Extent>& extents) {
  RecordWriter out = Writer(RecordType::kExtents);
  for (const Extent& extent : extents) {
    out.U8(static_cast<uint8_t>(extent.kind));
    out.U64(extent.epoch);
    out.U64(extent.segment);
    out.U32(extent.offset);
    out.U32(extent.bytes);
    out.U32(extent.count);
  }
  return std::move(out).Finish(key);
}

absl::StatusOr<std::vector<Extent>> DecodeExtents(absl::string_view key, absl::string_view record,
                                                  absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload, Open(RecordType::kExtents, key, record, what));
  constexpr size_t kExtentBytes = 29;
  std::vector<Extent> extents(payload.size() / kExtentBytes);
  RecordReader in(payload);
  bool right = payload.size() % kExtentBytes == 0;
  for (Extent& extent : extents) {
    const auto kind = in.Number<uint8_t>();
    right = right && kind < kKinds;
    extent.kind = static_cast<Kind>(kind);
    extent.epoch = in.Number<uint64_t>();
    extent.segment = in.Number<uint64_t>();
    extent.offset = in.Number<uint32_t>();
    extent.bytes = in.Number<uint32_t>();
    extent.count = in.Number<uint32_t>();
    right = right && extent.count > 0;
  }
  if (!right) return Damaged(what, absl::StrCat("payload of ", payload.size(), " bytes"));
  return extents;
}

std::string EncodeIndexHead(absl::string_view key, const IndexHeadRecord& index) {
  RecordWriter out = Writer(RecordType::kIndexHead);
  out.U64(index.generation);
  out.I64(index.total_bytes);
  return std::move(out).Finish(key);
}

absl::StatusOr<IndexHeadRecord> DecodeIndexHead(absl::string_view key, absl::string_view record,
                                                absl::string_view what) {
  ASSIGN_OR_RETURN(const absl::string_view payload,
                   Open(RecordType::kIndexHead, key, record, what));
  RecordReader in(payload);
  IndexHeadRecord index;
  index.generation = in.Number<uint64_t>();
  index.total_bytes = in.Count();
  if (!in.done()) return Damaged(what, absl::StrCat("payload of ", payload.size(), " bytes"));
  return index;
}

}  // namespace recollect::store::rados
