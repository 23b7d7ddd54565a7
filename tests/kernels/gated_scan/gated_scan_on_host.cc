#include "kernels/gated_scan/gated_scan_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(GatedScanOp)
