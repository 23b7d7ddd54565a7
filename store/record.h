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

inline constexpr size_t kRecordHeaderBytes = 8;

// Builds one record; Finish fills in the checksum.
class RecordWriter {
 public:
  RecordWriter(uint8_t type, size_t payload_bytes, uint8_t version);
  void U8(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void U32(uint64_t value);  // REQUIRES: value fits
  void U64(uint64_t value) { Raw(&value, sizeof(value)); }
  void I64(int64_t value) { U64(static_cast<uint64_t>(value)); }
  void String(absl::string_view value) {
    U32(value.size());
    Raw(value.data(), value.size());
  }
  void Raw(const void* bytes, size_t n) { out_.append(static_cast<const char*>(bytes), n); }

  // The record, to be stored under `key`.
  std::string Finish(absl::string_view key) &&;

 private:
  std::string out_;
};

// Reads the fields of a payload. done() tells whether a read went past the end or bytes are left
// over, so callers read all fields and check once.
class RecordReader {
 public:
  explicit RecordReader(absl::string_view payload) : rest_(payload) {}
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
  bool Has(size_t n) {
    ok_ = ok_ && rest_.size() >= n;
    return ok_;
  }
  absl::string_view rest_;
  bool ok_ = true;
};

// Returns the payload of a valid record of this type with a version in [oldest, newest]; it points
// into `record`. DATA_LOSS, naming `what`, for anything else.
absl::StatusOr<absl::string_view> OpenRecord(uint8_t type, absl::string_view key,
                                             absl::string_view record, absl::string_view what,
                                             uint8_t oldest, uint8_t newest);

// The error DATA_LOSS: `what` is damaged, because `why`.
absl::Status Damaged(absl::string_view what, absl::string_view why);

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_RECORD_H_
