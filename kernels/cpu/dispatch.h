// How an op chooses among its implementations at run time. NAME.h declares the op,
//   void Name(OpContext& ctx, const float* x, float* y);
// and NAME.cc every implementation with the type of it, so that the signature stands once:
//   namespace reference { decltype(kernels::Name) Name; }  // NAME_reference.cc
//   namespace avx2 { decltype(kernels::Name) Name; }       // NAME_simd.cc, compiled for AVX2
//   namespace avx512 { decltype(kernels::Name) Name; }     // and for AVX-512
//   void Name(OpContext& ctx, const float* x, float* y) {
//     Select<reference::Name, avx2::Name, avx512::Name>(ctx)(ctx, x, y);
//   }
// The reference is scalar, sums in double and knows no blocking: it documents what the vector code
// computes, which is tested against it.
#ifndef RECOLLECT_KERNELS_CPU_DISPATCH_H_
#define RECOLLECT_KERNELS_CPU_DISPATCH_H_

#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

// The implementation for the instruction set of `ctx`; where a build has no vector code
// (RECOLLECT_SIMD), the reference.
template <auto kReference, auto kAvx2, auto kAvx512>
auto Select([[maybe_unused]] const OpContext& ctx) {
#if defined(RECOLLECT_SIMD)
  if (ctx.isa() == Isa::kAvx512) return kAvx512;
  if (ctx.isa() == Isa::kAvx2) return kAvx2;
#endif
  return decltype(kAvx2)(kReference);
}

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_CPU_DISPATCH_H_
