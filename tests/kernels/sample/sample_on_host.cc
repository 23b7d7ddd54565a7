#include "kernels/sample/sample_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(SampleOp)
