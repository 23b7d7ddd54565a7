#include "kernels/cuda/cuda_launch.h"
#include "kernels/landmark_topk/landmark_decide_kernel.h"

RECOLLECT_LAUNCH(LandmarkTopKOp)
