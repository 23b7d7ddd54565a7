#include "kernels/elementwise/elementwise.h"

#include "kernels/cpu/convert.h"

namespace recollect::kernels {
RECOLLECT_CPU_OP_CODE(RmsNorm)
RECOLLECT_CPU_OP_CODE(SwiGlu)
RECOLLECT_CPU_OP_CODE(GeGlu)
RECOLLECT_CPU_OP_CODE(Gelu)
RECOLLECT_CPU_OP_CODE(Add)
RECOLLECT_CPU_OP_CODE(SigmoidGate)
RECOLLECT_CPU_OP_CODE(LogSumExp)
RECOLLECT_CPU_OP_CODE(RoundToBf16)
RECOLLECT_CPU_OP_CODE(ConvertToBf16)
RECOLLECT_CPU_OP_CODE(ConvertToFloat)

}  // namespace recollect::kernels
