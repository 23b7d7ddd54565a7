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

// The fields of a record, in their order: for writing and for reading.
constexpr auto kPoolFields = [](auto& record, auto& pool) {
  record.Fields(pool.version, pool.next_owner);
};
constexpr auto kCursorFields = [](auto& record, auto& cursor) {
  record.Fields(cursor.commits, cursor.state_epoch);
};
constexpr auto kIndexHeadFields = [](auto& record, auto& index) {
  record.Fields(index.generation, index.total_bytes);
};
constexpr auto kExtentFields = [](auto& record, auto& extent) {
  record.Fields(extent.kind, extent.epoch, extent.segment, extent.offset, extent.bytes,
                extent.count);
};

}  // namespace

std::string WriterKey(Bytes id) { return absl::StrCat(kWriterPrefix, id); }

std::string WriterValue(OwnerId owner, uint64_t epoch) {
  return absl::StrCat(Number(owner), ".", epoch);
}

bool ParseWriter(Bytes value, OwnerId* owner, uint64_t* epoch) {
  const std::pair<Bytes, Bytes> parts = absl::StrSplit(value, absl::MaxSplits('.', 1));
  uint64_t number = 0;
  const bool parsed =
      absl::SimpleAtoi(parts.first, &number) && absl::SimpleAtoi(parts.second, epoch);
  if (parsed) *owner = OwnerId{number};
  return parsed;
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
  return EncodeFields(RecordType::kPool, key, pool, kPoolFields);
}

absl::StatusOr<PoolRecord> DecodePool(Bytes key, Bytes record, Bytes what) {
  const auto read = [](RecordReader& in, PoolRecord& pool) {
    in.Fields(pool.version);
    if (pool.version == kPoolVersion) {
      in.Fields(pool.next_owner);
    } else {
      (void)in.Rest<char>();  // another version's affair
    }
  };
  return DecodeFields<PoolRecord>(RecordType::kPool, key, record, what, read);
}

std::string EncodeCursor(Bytes key, const CursorRecord& cursor) {
  return EncodeFields(RecordType::kCursor, key, cursor, kCursorFields);
}

absl::StatusOr<CursorRecord> DecodeCursor(Bytes key, Bytes record, Bytes what) {
  return DecodeFields<CursorRecord>(RecordType::kCursor, key, record, what, kCursorFields);
}

std::string EncodeExtents(Bytes key, const std::vector<Extent>& extents) {
  const auto fields = [](RecordWriter& out, const std::vector<Extent>& all) {
    for (const Extent& extent : all) kExtentFields(out, extent);
  };
  return EncodeFields(RecordType::kExtents, key, extents, fields);
}

absl::StatusOr<std::vector<Extent>> DecodeExtents(Bytes key, Bytes record, Bytes what) {
  const auto read = [](RecordReader& in, std::vector<Extent>& extents) {
    bool sound = true;
    while (sound && in.more()) {
      Extent extent;
      kExtentFields(in, extent);
      sound = static_cast<int>(extent.kind) < kKinds && extent.count > 0;
      extents.push_back(extent);
    }
    return sound;
  };
  return DecodeFields<std::vector<Extent>>(RecordType::kExtents, key, record, what, read);
}

std::string EncodeIndexHead(Bytes key, const IndexHeadRecord& index) {
  return EncodeFields(RecordType::kIndexHead, key, index, kIndexHeadFields);
}

absl::StatusOr<IndexHeadRecord> DecodeIndexHead(Bytes key, Bytes record, Bytes what) {
  return DecodeFields<IndexHeadRecord>(RecordType::kIndexHead, key, record, what, kIndexHeadFields);
}

}  // namespace recollect::store::rados
