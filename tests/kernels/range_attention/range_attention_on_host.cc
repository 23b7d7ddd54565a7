#include "kernels/range_attention/range_attention_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(RangeAttentionOp)
