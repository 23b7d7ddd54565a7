#include "store/record.h"

#include <bit>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "store/crc32c.h"

// Arrays of numbers are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);

namespace recollect::store {
namespace {

constexpr size_t kCheckedHeaderBytes = 4;  // version, type, zero; the checksum itself follows

uint32_t Checksum(Bytes key, Bytes record) {
  uint32_t crc = Crc32c(key);
  crc = Crc32c(record.substr(0, kCheckedHeaderBytes), crc);
  return Crc32c(record.substr(kRecordHeaderBytes), crc);
}

}  // namespace

RecordWriter::RecordWriter(RecordType type, size_t payload_bytes, uint8_t version) {
  out_.reserve(kRecordHeaderBytes + payload_bytes);
  Fields(version, type);
  out_.append(kRecordHeaderBytes - 2, '\0');
}

void RecordWriter::U32(uint64_t value) {
  RECOLLECT_CHECK(value <= std::numeric_limits<uint32_t>::max());
  const auto narrow = static_cast<uint32_t>(value);
  Raw(&narrow, sizeof(narrow));
}

std::string RecordWriter::Finish(Bytes key) && {
  const uint32_t crc = Checksum(key, out_);
  std::memcpy(out_.data() + kCheckedHeaderBytes, &crc, sizeof(crc));
  return std::move(out_);
}

absl::Status Damaged(Bytes what, Bytes why) {
  return absl::DataLossError(absl::StrCat(what, ": ", why));
}

absl::Status DoesNotParse(Bytes what, Bytes payload) {
  return Damaged(what, absl::StrCat("payload of ", payload.size(), " bytes does not parse"));
}

absl::StatusOr<Bytes> OpenRecord(RecordType type, Bytes key, Bytes record, Bytes what,
                                 uint8_t newest) {
  if (record.size() < kRecordHeaderBytes) {
    return Damaged(what, absl::StrCat("record of ", record.size(), " bytes, shorter than the ",
                                      kRecordHeaderBytes, " of its header"));
  }
  uint32_t stored;
  std::memcpy(&stored, record.data() + kCheckedHeaderBytes, sizeof(stored));
  const uint32_t crc = Checksum(key, record);
  if (crc != stored) {
    return Damaged(what, absl::StrCat("checksum ", absl::Hex(crc, absl::kZeroPad8), ", expected ",
                                      absl::Hex(stored, absl::kZeroPad8)));
  }
  const auto version = static_cast<uint8_t>(record[0]);
  if (version < kRecordVersion || version > newest) {
    return Damaged(what, absl::StrCat("record version ", version, ", expected ", kRecordVersion,
                                      newest > kRecordVersion ? absl::StrCat(" to ", newest) : ""));
  }
  const auto number = static_cast<uint8_t>(type);
  if (static_cast<uint8_t>(record[1]) != number || record[2] != 0 || record[3] != 0) {
    return Damaged(
        what, absl::StrCat("record type ", static_cast<uint8_t>(record[1]), ", expected ", number));
  }
  return record.substr(kRecordHeaderBytes);
}

}  // namespace recollect::store
