#include "kernels/landmark_topk/landmark_decide_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(LandmarkTopKOp)
