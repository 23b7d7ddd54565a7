#include "kernels/cuda/cuda_launch.h"
#include "kernels/gca/gca_ahead_kernel.h"

RECOLLECT_LAUNCH(GcaOp)
