#include "kernels/block_topk/block_bounds_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(BlockBoundsOp)
