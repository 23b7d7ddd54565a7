#include "kernels/cuda/cuda_launch.h"
#include "kernels/tile_attention/tile_attention_kernel.h"

RECOLLECT_LAUNCH(TileAttentionOp)
