#include "kernels/cuda/cuda_launch.h"
#include "kernels/linear_attention/features_kernel.h"

RECOLLECT_LAUNCH(FeaturesOp)
