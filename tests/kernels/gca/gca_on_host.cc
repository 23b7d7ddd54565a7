#include "kernels/gca/gca_ahead_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(GcaOp)
