#include "store/rados/records.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "store/format.h"

namespace recollect::store::rados {
namespace {

std::string Hex16(uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

uint64_t Number(OwnerId owner) { return static_cast<uint64_t>(owner); }

template <typename Record, typename T>
void ExtentFields(Record& record, T& extent) {
  record.Fields(extent.kind, extent.epoch, extent.segment, extent.offset, extent.bytes,
                extent.count);
}

// For records that have only numbers, in the order in which `fields` visits them.
template <typename T, typename Fields>
std::string Encode(RecordType type, Bytes key, const T& value, const Fields& fields) {
  RecordWriter out(type, 64);
  fields(out, value);
  return std::move(out).Finish(key);
}

absl::Status WrongSize(Bytes what, Bytes payload) {
  return Damaged(what, absl::StrCat("payload of ", payload.size(), " bytes"));
}

template <typename T, typename Fields>
absl::StatusOr<T> Decode(RecordType type, Bytes key, Bytes record, Bytes what,
                         const Fields& fields) {
  ASSIGN_OR_RETURN(const Bytes payload, OpenRecord(type, key, record, what));
  RecordReader in(payload);
  T value;
  fields(in, value);
  if (!in.done()) return WrongSize(what, payload);
  return value;
}

constexpr auto kCursorFields = [](auto& record, auto& cursor) {
  record.Fields(cursor.commits, cursor.state_epoch);
};
constexpr auto kIndexHeadFields = [](auto& record, auto& index) {
  record.Fields(index.generation, index.total_bytes);
};

}  // namespace

std::string WriterKey(Bytes id) { return absl::StrCat("w", id); }

std::string WriterValue(OwnerId owner, uint64_t epoch) {
  return absl::StrCat(Number(owner), ".", epoch);
}

bool ParseWriter(Bytes value, OwnerId* owner, uint64_t* epoch) {
  const std::pair<Bytes, Bytes> parts = absl::StrSplit(value, absl::MaxSplits('.', 1));
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

std::string AppendPointKey(Bytes epoch) { return absl::StrCat("append point ", epoch); }

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

std::optional<OwnerId> OwnerOfObject(Bytes name) {
  if (name.size() < 17 || name[0] != 'o' || (name.size() > 17 && name[17] != '.')) return {};
  uint64_t number = 0;
  for (const char c : name.substr(1, 16)) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return {};
    number = number << 4 | static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return OwnerId{number};
}

std::string CacheKey(Bytes document, OwnerId owner, int64_t index) {
  return absl::StrCat(document, PieceKey(owner, index));
}

std::string EncodeCached(Bytes key, Bytes record) {
  RecordWriter out(RecordType::kCached, record.size());
  out.Raw(record.data(), record.size());
  return std::move(out).Finish(key);
}

absl::StatusOr<std::string> DecodeCached(Bytes key, Bytes cached, Bytes what) {
  ASSIGN_OR_RETURN(const Bytes payload, OpenRecord(RecordType::kCached, key, cached, what));
  return std::string(payload);
}

std::string EncodePool(Bytes key, const PoolRecord& pool) {
  RecordWriter out(RecordType::kPool, 64);
  out.Fields(pool.version, pool.next_owner);
  return std::move(out).Finish(key);
}

absl::StatusOr<PoolRecord> DecodePool(Bytes key, Bytes record, Bytes what) {
  ASSIGN_OR_RETURN(const Bytes payload, OpenRecord(RecordType::kPool, key, record, what));
  RecordReader in(payload);
  PoolRecord pool;
  in.Fields(pool.version);
  // What follows is another version's affair.
  if (pool.version != kPoolVersion) return pool;
  in.Fields(pool.next_owner);
  if (!in.done()) return WrongSize(what, payload);
  return pool;
}

std::string EncodeCursor(Bytes key, const CursorRecord& cursor) {
  return Encode(RecordType::kCursor, key, cursor, kCursorFields);
}

absl::StatusOr<CursorRecord> DecodeCursor(Bytes key, Bytes record, Bytes what) {
  return Decode<CursorRecord>(RecordType::kCursor, key, record, what, kCursorFields);
}

std::string EncodeExtents(Bytes key, const std::vector<Extent>& extents) {
  RecordWriter out(RecordType::kExtents, 64);
  for (const Extent& extent : extents) ExtentFields(out, extent);
  return std::move(out).Finish(key);
}

absl::StatusOr<std::vector<Extent>> DecodeExtents(Bytes key, Bytes record, Bytes what) {
  ASSIGN_OR_RETURN(const Bytes payload, OpenRecord(RecordType::kExtents, key, record, what));
  constexpr size_t kExtentBytes = 29;
  std::vector<Extent> extents(payload.size() / kExtentBytes);
  RecordReader in(payload);
  bool right = payload.size() % kExtentBytes == 0;
  for (Extent& extent : extents) {
    ExtentFields(in, extent);
    right = right && static_cast<int>(extent.kind) < kKinds && extent.count > 0;
  }
  if (!right) return WrongSize(what, payload);
  return extents;
}

std::string EncodeIndexHead(Bytes key, const IndexHeadRecord& index) {
  return Encode(RecordType::kIndexHead, key, index, kIndexHeadFields);
}

absl::StatusOr<IndexHeadRecord> DecodeIndexHead(Bytes key, Bytes record, Bytes what) {
  return Decode<IndexHeadRecord>(RecordType::kIndexHead, key, record, what, kIndexHeadFields);
}

}  // namespace recollect::store::rados
