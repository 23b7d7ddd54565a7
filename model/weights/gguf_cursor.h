// Reads the items of a GGUF file one after another. Private to model/weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/text/printable.h"

namespace recollect::model {

// A place in bytes that are not its own. An item that the bytes end before is INVALID_ARGUMENT and
// leaves the place as it was.
class GgufCursor {
 public:
  explicit GgufCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }
  std::span<const std::byte> Since(uint64_t begin) const {
    return bytes_.subspan(begin, at_ - begin);
  }

  absl::StatusOr<std::span<const std::byte>> Take(uint64_t bytes) {
    if (bytes > left()) {
      return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes at byte ", at_, ", and ",
                                                     left(), " are left; it may be truncated"));
    }
    const std::span<const std::byte> taken = bytes_.subspan(at_, bytes);
    at_ += bytes;
    return taken;
  }

  template <typename T>
  absl::StatusOr<T> Read() {
    ASSIGN_OR_RETURN(const std::span<const std::byte> taken, Take(sizeof(T)));
    T item;
    std::memcpy(&item, taken.data(), sizeof(T));
    return item;
  }

  // 8 bytes of length, then so many bytes, of any value.
  absl::StatusOr<std::string_view> ReadString() {
    ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>());
    ASSIGN_OR_RETURN(const std::span<const std::byte> taken, Take(length));
    return std::string_view(reinterpret_cast<const char*>(taken.data()), taken.size());
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

// A key or name of a file as messages show it: bounded, and without what would not show.
inline std::string GgufQuoted(std::string_view name) {
  constexpr size_t kMaxBytes = 80;
  return EscapeInvisible(Shortened(absl::string_view(name.data(), name.size()), kMaxBytes));
}

}  // namespace recollect::model
