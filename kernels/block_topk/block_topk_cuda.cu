#include "kernels/block_topk/block_topk_kernel.h"
#include "kernels/cuda/cuda_launch.h"

RECOLLECT_LAUNCH(BlockTopKOp)
