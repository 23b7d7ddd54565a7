// Measures what this machine can do on one thread, in the same run as the ops: the scale for their
// numbers.
#pragma once

#include <string>

namespace recollect::bench {

struct Ceilings {
  double fp32_flops = 0;   // flop/s of a large oneDNN product
  double bf16_flops = 0;   // 0 where bf16 products are not native
  double int8_flops = 0;   // op/s of a large oneDNN product of 8-bit integers
  double read_bytes = 0;   // byte/s of a sum over memory far larger than the caches
  double cache_bytes = 0;  // byte/s of a search through half a MiB, again and again
};

Ceilings MeasureCeilings();

std::string CpuName();

// Returns the instruction set of oneDNN's products: "amx", "avx512_bf16", "avx512" or "avx2", the
// best that the CPU has and the environment's ONEDNN_MAX_CPU_ISA allows.
std::string ProductIsa();

}  // namespace recollect::bench
