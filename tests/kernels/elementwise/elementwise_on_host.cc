#include "kernels/elementwise/elementwise_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(AddOp)
RECOLLECT_ON_HOST(ConvertToBf16Op)
RECOLLECT_ON_HOST(GeGluOp)
RECOLLECT_ON_HOST(GeluOp)
RECOLLECT_ON_HOST(RmsNormOp)
RECOLLECT_ON_HOST(SigmoidGateOp)
RECOLLECT_ON_HOST(SwiGluOp)
