#include "store/crc32c.h"

#include <algorithm>
#include <cstddef>

#include "isa-l/crc.h"

namespace recollect::store {

uint32_t Crc32c(absl::string_view bytes, uint32_t before) {
  // isa-l takes and returns the register without the inversions, a mutable pointer that it only
  // reads, and an int length.
  constexpr size_t kMaxPiece = size_t{1} << 30;
  uint32_t crc = ~before;
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kMaxPiece);
    crc = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data())),
                      static_cast<int>(n), crc);
    bytes.remove_prefix(n);
  }
  return ~crc;
}

}  // namespace recollect::store
