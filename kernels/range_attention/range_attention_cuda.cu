#include "kernels/cuda/cuda_launch.h"
#include "kernels/range_attention/range_attention_kernel.h"

RECOLLECT_LAUNCH(RangeAttentionOp)
