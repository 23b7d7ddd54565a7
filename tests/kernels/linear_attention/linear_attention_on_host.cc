#include "kernels/linear_attention/linear_attention_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(LinearAttentionOp)
