// The registers of AMX: eight tiles of up to 16 rows of 64 bytes.
#pragma once

#include <stdint.h>

namespace recollect::kernels {

// Says how large each register is, for _tile_loadconfig. It has to be a constant: GCC's intrinsic
// does not say that it reads all of it.
struct TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {};
  uint8_t rows[16] = {};

  constexpr void Set(int tile, int of_rows, int bytes) {
    rows[tile] = static_cast<uint8_t>(of_rows);
    bytes_per_row[tile] = static_cast<uint16_t>(bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

}  // namespace recollect::kernels
