#include "kernels/cuda/cuda_launch.h"
#include "kernels/sample/sample_kernel.h"

RECOLLECT_LAUNCH(SampleOp)
