#include "kernels/op_context.h"

#include <cstdlib>
#include <new>

namespace recollect::kernels {

Isa DetectIsa() {
#if defined(__x86_64__)
  static const Isa isa = [] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      return Isa::kAvx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::kAvx2;
    return Isa::kScalar;
  }();
  return isa;
#else
  return Isa::kScalar;
#endif
}

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

void OpContext::FreeDeleter::operator()(float* p) const { std::free(p); }

float* OpContext::Floats(int slot, int64_t count) {
  if (slot >= static_cast<int>(slots_.size())) slots_.resize(slot + 1);
  Slot& entry = slots_[slot];
  if (count > entry.count || entry.data == nullptr) {
    constexpr int64_t kAlignment = 64;
    const int64_t bytes =
        (count * static_cast<int64_t>(sizeof(float)) + kAlignment) / kAlignment * kAlignment;
    entry.data.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
    if (entry.data == nullptr) throw std::bad_alloc();
    entry.count = count;
  }
  return entry.data.get();
}

}  // namespace recollect::kernels
