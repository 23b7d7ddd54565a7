#include "kernels/sparse_topk/sparse_topk_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(SparseTopKOp)
