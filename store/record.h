// The framing of every record, and the writing and reading of its fields: version u8, type u8, zero
// u16, CRC-32C u32 over key, first half of the header and payload, then the payload; integers
// little-endian. The contents of each type of record: store/format.h.
#ifndef RECOLLECT_STORE_RECORD_H_
#define RECOLLECT_STORE_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

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

// A field that may be negative; others of its type are counts.
template <typename T>
struct AnySign {
  T& value;
};
template <typename T>
AnySign(T&) -> AnySign<T>;

// Builds one record; Finish fills in the checksum.
class RecordWriter {
 public:
  RecordWriter(RecordType type, size_t payload_bytes, uint8_t version = kRecordVersion);
  // Appends fields in order: numbers, numbers of owners, flags and strings.
  template <typename... T>
  void Fields(const T&... fields) {
    (Field(fields), ...);
  }
  void U8(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void U32(uint64_t value);  // REQUIRES: value fits
  void String(Bytes value) {
    U32(value.size());
    Raw(value.data(), value.size());
  }
  void Raw(const void* bytes, size_t n) { out_.append(static_cast<const char*>(bytes), n); }

  // The record, to be stored under `key`.
  std::string Finish(Bytes key) &&;

 private:
  template <typename T>
  void Field(const T& field) {
    if constexpr (std::is_same_v<T, bool>) {
      U8(field ? 1 : 0);
    } else if constexpr (std::is_same_v<T, std::string>) {
      String(field);
    } else {
      static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
      Raw(&field, sizeof(field));
    }
  }
  template <typename T>
  void Field(const AnySign<T>& field) {
    Field(field.value);
  }
  std::string out_;
};

// Reads the fields of a payload. done() tells whether a read went past the end or bytes are left
// over, so callers read all fields and check once.
class RecordReader {
 public:
  explicit RecordReader(Bytes payload) : rest_(payload) {}
  // Reads what RecordWriter::Fields has written.
  template <typename... T>
  void Fields(T&&... fields) {
    (Field(fields), ...);
  }
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
  // A count: never negative in a valid record.
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
  std::vector<T> Numbers(size_t count) {
    if (!Has(count * sizeof(T))) return {};
    std::vector<T> out(count);
    if (count > 0) std::memcpy(out.data(), rest_.data(), count * sizeof(T));
    rest_.remove_prefix(count * sizeof(T));
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
  template <typename T>
  void Field(T& field) {
    if constexpr (std::is_same_v<T, bool>) {
      field = Flag();
    } else if constexpr (std::is_same_v<T, std::string>) {
      field = String();
    } else if constexpr (std::is_same_v<T, int64_t>) {
      field = Count();
    } else if constexpr (std::is_enum_v<T>) {
      field = T{Number<std::underlying_type_t<T>>()};
    } else {
      field = Number<T>();
    }
  }
  template <typename T>
  void Field(AnySign<T>& field) {
    field.value = Number<T>();
  }
  bool Has(size_t n) {
    ok_ = ok_ && rest_.size() >= n;
    return ok_;
  }
  Bytes rest_;
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

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_RECORD_H_
