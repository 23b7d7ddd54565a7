#include "kernels/key_dots/key_dots.h"

namespace recollect::kernels {
RECOLLECT_CPU_OP_CODE(KeyDots)

}  // namespace recollect::kernels
