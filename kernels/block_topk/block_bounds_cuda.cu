#include "kernels/block_topk/block_bounds_kernel.h"
#include "kernels/cuda/cuda_launch.h"

RECOLLECT_LAUNCH(BlockBoundsOp)
