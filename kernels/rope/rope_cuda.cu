#include "kernels/cuda/cuda_launch.h"
#include "kernels/rope/rope_kernel.h"

RECOLLECT_LAUNCH(RopeOp)
