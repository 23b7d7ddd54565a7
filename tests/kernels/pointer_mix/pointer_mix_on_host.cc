#include "kernels/pointer_mix/pointer_mix_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(MixPointedOp)
