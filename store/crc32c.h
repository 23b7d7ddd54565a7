// CRC-32C (Castagnoli, reflected, initial and final value all ones): Crc32c("123456789") is
// 0xE3069283. The checksum of every record (docs/formats.md).
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace recollect::store {

// Checksum of a byte sequence, possibly given in pieces: Crc32c(b, Crc32c(a)) == Crc32c(a + b).
uint32_t Crc32c(absl::string_view bytes, uint32_t before = 0);

}  // namespace recollect::store
