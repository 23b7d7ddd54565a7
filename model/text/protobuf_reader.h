// Reads a protobuf message field by field, without the library. Private to model/.
#ifndef RECOLLECT_MODEL_TEXT_PROTOBUF_READER_H_
#define RECOLLECT_MODEL_TEXT_PROTOBUF_READER_H_

#include <cstdint>
#include <string_view>

namespace recollect::model {

// Reads one field of a protobuf message at a time.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  // False at the end or on an error; ok() tells which.
  bool Next() {
    if (rest_.empty() || !ok_) return false;
    const uint64_t tag = Varint();
    number = tag >> 3;
    switch (tag & 7) {
      case 0:
        value = Varint();
        break;
      case 1:
        bytes = Take(8);
        break;
      case 2:
        bytes = Take(Varint());
        break;
      case 5:
        bytes = Take(4);
        break;
      default:
        ok_ = false;
    }
    return ok_;
  }
  bool ok() const { return ok_; }

  uint64_t number = 0;
  uint64_t value = 0;
  std::string_view bytes;

 private:
  uint64_t Varint() {
    uint64_t result = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      result |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return result;
    }
    ok_ = false;
    return 0;
  }
  std::string_view Take(uint64_t size) {
    if (size > rest_.size()) {
      ok_ = false;
      size = 0;
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_TEXT_PROTOBUF_READER_H_
