#include "kernels/cuda/cuda_launch.h"
#include "kernels/linear_attention/linear_attention_kernel.h"

RECOLLECT_LAUNCH(LinearAttentionOp)
