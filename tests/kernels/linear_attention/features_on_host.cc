#include "kernels/linear_attention/features_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(FeaturesOp)
