#include "kernels/cuda/cuda_launch.h"
#include "kernels/pointer_mix/pointer_mix_kernel.h"

RECOLLECT_LAUNCH(MixPointedOp)
