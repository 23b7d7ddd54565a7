#include "kernels/rope/rope_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(RopeOp)
