#include "kernels/cuda/cuda_launch.h"
#include "kernels/sparse_topk/sparse_topk_kernel.h"

RECOLLECT_LAUNCH(SparseTopKOp)
