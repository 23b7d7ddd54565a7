// How an op chooses among its implementations at run time. NAME.h declares the op,
//   void Name(OpContext& ctx, const float* x, float* y);
// and NAME.cc says in one line that it has code for every instruction set, and calls that code:
//   RECOLLECT_CPU_OP(Name)
//   void Name(OpContext& ctx, const float* x, float* y) { kName(ctx, x, y); }
// The line declares, with the op's type, reference::Name (NAME_reference.cc) and avx2::Name and
// avx512::Name (NAME_simd.cc, which is compiled for both). The reference is scalar, sums in double
// and knows no blocking: it documents what the vector code computes, which is tested against it.
#pragma once

#include <utility>

#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

// The implementations of an op; where a build has no vector code (RECOLLECT_SIMD), those are null.
template <typename Function>
struct CpuOp {
  Function* reference = nullptr;
  Function* avx2 = nullptr;
  Function* avx512 = nullptr;

  // The one for the instruction set of `ctx`.
  Function* For(const OpContext& ctx) const {
    if (ctx.isa() == Isa::kAvx512 && avx512 != nullptr) return avx512;
    if (ctx.isa() == Isa::kAvx2 && avx2 != nullptr) return avx2;
    return reference;
  }
  template <typename... Args>
  auto operator()(OpContext& ctx, Args&&... args) const {
    return For(ctx)(ctx, std::forward<Args>(args)...);
  }
};

}  // namespace recollect::kernels

#if defined(RECOLLECT_SIMD)
#define RECOLLECT_VECTOR_CODE(Name) avx2::Name, avx512::Name
#else
#define RECOLLECT_VECTOR_CODE(Name) nullptr, nullptr
#endif

// Declares code of a type of its own, whose scalar implementation is `scalar` or nullptr.
#define RECOLLECT_CPU_CODE(Function, Name, scalar) \
  namespace avx2 {                                 \
  Function Name;                                   \
  }                                                \
  namespace avx512 {                               \
  Function Name;                                   \
  }                                                \
  constexpr CpuOp<Function> k##Name = {scalar, RECOLLECT_VECTOR_CODE(Name)};

#define RECOLLECT_CPU_OP(Name)  \
  namespace reference {         \
  decltype(kernels::Name) Name; \
  }                             \
  RECOLLECT_CPU_CODE(decltype(kernels::Name), Name, reference::Name)
