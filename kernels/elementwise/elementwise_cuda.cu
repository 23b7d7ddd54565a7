#include "kernels/cuda/cuda_launch.h"
#include "kernels/elementwise/elementwise_kernel.h"

RECOLLECT_LAUNCH(AddOp)
RECOLLECT_LAUNCH(ConvertToBf16Op)
RECOLLECT_LAUNCH(GeGluOp)
RECOLLECT_LAUNCH(GeluOp)
RECOLLECT_LAUNCH(RmsNormOp)
RECOLLECT_LAUNCH(SigmoidGateOp)
RECOLLECT_LAUNCH(SwiGluOp)
