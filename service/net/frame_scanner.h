// Follows the frames of one direction of an HTTP/2 connection (RFC 9113, 4.1) through the bytes
// that pass, without a look at what they carry.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace recollect::service {

struct FrameHeader {
  static constexpr size_t kBytes = 9;
  static constexpr uint8_t kData = 0, kHeaders = 1, kResetStream = 3;  // of `type`
  static constexpr uint8_t kEndStream = 1;                             // of `flags`, of both

  uint8_t type, flags;
  uint32_t stream;
};

// Not thread-safe.
class FrameScanner {
 public:
  // `preface`: bytes before the first frame.
  explicit FrameScanner(size_t preface) : left_(preface) {}

  // How many of the connection's next `bytes` may pass: all up to the first header that `admit`
  // holds back, or that is not whole yet. Those are never shown again, a header held back is.
  size_t Scan(absl::string_view bytes, absl::FunctionRef<bool(const FrameHeader&)> admit) {
    size_t passed = 0;
    while (true) {
      const size_t part = std::min(left_, bytes.size() - passed);
      passed += part;
      left_ -= part;
      if (left_ > 0 || bytes.size() - passed < FrameHeader::kBytes) return passed;
      const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[passed + i]); };
      const uint32_t stream = (byte(5) & 0x7fu) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
      if (!admit({byte(3), byte(4), stream})) return passed;
      left_ = FrameHeader::kBytes + (size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2));
    }
  }

 private:
  size_t left_;  // until the next header
};

}  // namespace recollect::service
