#include "kernels/tile_attention/tile_attention_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(TileAttentionOp)
