// The framing of every record, and the writing and reading of its fields: version u8, type u8, zero
// u16, CRC-32C u32 over key, first half of the header and payload, then the payload; integers
// little-endian. The contents of each type of record: store/format.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status.h"

namespace recollect::store {

using Bytes = absl::string_view;  // of a key, a record, or the name of a record in messages

inline constexpr size_t kRecordHeaderBytes = 8;
inline constexpr uint8_t kRecordVersion = 1;  // of most types; store/format.h has the others

// Numbers on disk: never change or reuse one.
enum class RecordType : uint8_t {
  kMeta = 1,
  kDocument = 2,
  kIngest = 3,
  kResume = 4,
  kText = 5,
  kTokens = 6,
  kChunk = 7,
  kLandmarks = 8,
  kRemoved = 9,
  kState = 10,
  kCatalog = 11,
  kHead = 12,
  kFileHead = 13,  // of a document in a file of its own, like the next: store/document_file.h
  kFileEnd = 14,
  kIndex = 15,
  kPool = 16,  // of the store over RADOS, like the next three: store/rados/records.h
  kCursor = 17,
  kExtents = 18,
  kIndexHead = 19,
  kCached = 20,  // in a cache in front of it
};

// Builds one record; Finish fills in the checksum.
class RecordWriter {
 public:
  RecordWriter(RecordType type, size_t payload_bytes, uint8_t version = kRecordVersion);
  // Appends fields in order: numbers, numbers of owners, flags and strings.
  template <typename... T>
  void Fields(const T&... fields) {
    (Field(fields), ...);
  }
  void Signed(int64_t value) { Field(value); }
  void U32(uint64_t value);  // REQUIRES: value fits
  void Raw(const void* bytes, size_t n) { out_.append(static_cast<const char*>(bytes), n); }

  // The record, to be stored under `key`.
  std::string Finish(Bytes key) &&;

 private:
  template <typename T>
  void Field(const T& field) {
    if constexpr (std::is_same_v<T, std::string>) {
      U32(field.size());
      Raw(field.data(), field.size());
    } else {
      static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
      Raw(&field, sizeof(field));
    }
  }
  std::string out_;
};

// Reads the fields of a payload, or of bytes that others wrote the same way. done() tells whether a
// read went past the end or bytes are left over, so callers read all fields and check once.
class RecordReader {
 public:
  explicit RecordReader(Bytes payload, uint8_t version = kRecordVersion)
      : rest_(payload), version_(version) {}
  uint8_t version() const { return version_; }
  // Reads what RecordWriter::Fields has written. A number of type int64_t is a count, which is
  // never negative in a valid record.
  template <typename... T>
  void Fields(T&... fields) {
    ((fields = Get<T>()), ...);
  }
  void Signed(int64_t& value) { value = static_cast<int64_t>(Get<uint64_t>()); }
  template <typename T>
  T Get() {
    if constexpr (std::is_same_v<T, std::string>) {
      return std::string(Take(Get<uint32_t>()));
    } else if constexpr (std::is_same_v<T, bool>) {
      const auto value = Get<uint8_t>();
      ok_ = ok_ && value <= 1;
      return value == 1;
    } else {
      static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
      T value{};
      if (const Bytes bytes = Take(sizeof(T)); ok_) std::memcpy(&value, bytes.data(), sizeof(T));
      if constexpr (std::is_same_v<T, int64_t>) ok_ = ok_ && value >= 0;
      return value;
    }
  }
  template <typename T>
  std::vector<T> Numbers(size_t count) {
    const Bytes bytes = Take(count * sizeof(T));
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  template <typename T>
  std::vector<T> Rest() {
    ok_ = ok_ && rest_.size() % sizeof(T) == 0;
    return Numbers<T>(rest_.size() / sizeof(T));
  }
  bool more() const { return ok_ && !rest_.empty(); }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  // Returns the next bytes; none, once there are too few.
  Bytes Take(size_t n) {
    ok_ = ok_ && rest_.size() >= n;
    const Bytes taken = rest_.substr(0, ok_ ? n : 0);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  Bytes rest_;
  const uint8_t version_;
  bool ok_ = true;
};

// Returns the payload of a valid record of this type with a version up to `newest`; it points into
// `record`. DATA_LOSS, naming `what`, for anything else.
absl::StatusOr<Bytes> OpenRecord(RecordType type, Bytes key, Bytes record, Bytes what,
                                 uint8_t newest = kRecordVersion);

// The error DATA_LOSS: `what` is damaged, because `why`.
absl::Status Damaged(Bytes what, Bytes why);
// The same, because its payload is none of that type.
absl::Status DoesNotParse(Bytes what, Bytes payload);

// Encodes and decodes a record of fields that `fields` visits in their order, given the record and
// the value.
template <typename T, typename Fields>
std::string EncodeFields(RecordType type, Bytes key, const T& value, const Fields& fields) {
  RecordWriter out(type, 64);
  fields(out, value);
  return std::move(out).Finish(key);
}
// `read` gets the reader and the value, and may return false: such a value is in no record.
template <typename T, typename Read>
absl::StatusOr<T> DecodeFields(RecordType type, Bytes key, Bytes record, Bytes what,
                               const Read& read, uint8_t newest = kRecordVersion) {
  ASSIGN_OR_RETURN(const Bytes payload, OpenRecord(type, key, record, what, newest));
  RecordReader in(payload, static_cast<uint8_t>(record[0]));
  T value;
  bool sound = true;
  if constexpr (std::is_void_v<decltype(read(in, value))>) {
    read(in, value);
  } else {
    sound = read(in, value);
  }
  if (sound && in.done()) return value;
  return DoesNotParse(what, payload);
}

}  // namespace recollect::store
