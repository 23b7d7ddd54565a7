// How an op chooses among its implementations at run time. NAME.h declares the op by its type,
//   RECOLLECT_CPU_OP(Name, void(OpContext& ctx, const float* x, float* y));
// and it is called like a function of that type. NAME.cc says that it has code for every
// instruction set:
//   RECOLLECT_CPU_OP_CODE(Name)
// That line declares reference::Name (NAME_reference.cc) and avx2::Name and avx512::Name
// (NAME_simd.cc, which is compiled for both), functions of the type, and makes the op of them. The
// reference is scalar, sums in double and knows no blocking: it documents what the vector code
// computes, which is tested against it.
#pragma once

#include <utility>

#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

// Implementations of one type; where a build has no vector code (RECOLLECT_SIMD), those are null.
template <typename Function>
struct CpuCode {
  Function* reference = nullptr;
  Function* avx2 = nullptr;
  Function* avx512 = nullptr;

  // The one for the instruction set of `ctx`.
  Function* For(const OpContext& ctx) const {
    if (ctx.isa() == Isa::kAvx512 && avx512 != nullptr) return avx512;
    if (ctx.isa() == Isa::kAvx2 && avx2 != nullptr) return avx2;
    return reference;
  }
};

template <typename Function>
struct CpuOp;
template <typename Result, typename... Args>
struct CpuOp<Result(OpContext&, Args...)> {
  using Function = Result(OpContext&, Args...);
  CpuCode<Function> code;

  // In place, so that no copy of it is compiled for an instruction set that the machine lacks.
  [[gnu::always_inline]] Result operator()(OpContext& ctx, Args... args) const {
    return code.For(ctx)(ctx, std::forward<Args>(args)...);
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
  constexpr CpuCode<Function> k##Name = {scalar, RECOLLECT_VECTOR_CODE(Name)};

// The same of a function that is declared as one, and does more than call k##Name.For(ctx).
#define RECOLLECT_CPU_CODE_OF(Name) \
  namespace reference {             \
  decltype(kernels::Name) Name;     \
  }                                 \
  RECOLLECT_CPU_CODE(decltype(kernels::Name), Name, reference::Name)

#define RECOLLECT_CPU_OP(Name, ...) extern const CpuOp<__VA_ARGS__> Name
#define RECOLLECT_CPU_OP_CODE(Name)                                            \
  namespace reference {                                                        \
  decltype(kernels::Name)::Function Name;                                      \
  }                                                                            \
  RECOLLECT_CPU_CODE(decltype(kernels::Name)::Function, Name, reference::Name) \
  constexpr decltype(kernels::Name) Name = {k##Name};
