#include "kernels/cuda/cuda_launch.h"
#include "kernels/gated_scan/gated_scan_kernel.h"

RECOLLECT_LAUNCH(GatedScanOp)
