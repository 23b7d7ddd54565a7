#include "kernels/cpu/op_context.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/cpu/op_team.h"

namespace recollect::kernels {
namespace {

Isa OfThisMachine() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return Isa::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::kAvx2;
#endif
  return Isa::kScalar;
}

// Lets tests run as on a lesser machine, as DNNL_MAX_CPU_ISA does for oneDNN.
Isa Allowed() {
  const char* name = std::getenv("RECOLLECT_MAX_ISA");
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2}) {
    if (name != nullptr && std::strcmp(name, IsaName(isa)) == 0) return isa;
  }
  return Isa::kAvx512;
}

}  // namespace

Isa DetectIsa() {
  static const Isa isa = std::min(OfThisMachine(), Allowed());
  return isa;
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

float* OpContext::Floats(const ScratchName& name, int64_t count) {
  Scratch& entry = scratch_[&name];
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

void OpContext::Share(int parts, const std::function<void(OpContext& own, int part)>& body) {
  if (team_ != nullptr && parts > 1) return team_->Share(*this, parts, body);
  for (int part = 0; part < parts; ++part) body(*this, part);
}

}  // namespace recollect::kernels
