// The instructions that oneDNN may use: those that the CPU has, the operating system saves the
// registers of, and DNNL_MAX_CPU_ISA allows.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace recollect::kernels {

inline bool OneDnnAllows(dnnl::cpu_isa isa) {
  const auto need = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & need) == need;
}

}  // namespace recollect::kernels
