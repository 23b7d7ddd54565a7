// The context that every op receives: the instruction set to use and scratch memory. One per
// thread.
#ifndef RECOLLECT_KERNELS_CPU_OP_CONTEXT_H_
#define RECOLLECT_KERNELS_CPU_OP_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace recollect::kernels {

// kScalar is the double-precision reference; the others are vector code chosen by cpuid at run
// time.
enum class Isa { kScalar, kAvx2, kAvx512 };

// Returns the best instruction set of this machine, within RECOLLECT_MAX_ISA if it is set.
Isa DetectIsa();
const char* IsaName(Isa isa);  // "scalar", "avx2", "avx512"

// Scratch slots 0 to kFirstKernelSlot - 1 are the caller's (a model's layers); the kernels use the
// slots from there on.
inline constexpr int kFirstKernelSlot = 64;

class OpTeam;

// Not thread-safe: one per thread. Scratch returned by Floats(slot, n) stays valid until the same
// slot is asked for again with a larger n. 64-byte aligned, uninitialised.
class OpContext {
 public:
  explicit OpContext(Isa isa = DetectIsa()) : isa_(isa) {}
  Isa isa() const { return isa_; }
  float* Floats(int slot, int64_t count);

  // The threads that share this thread's ops (op_team.h). Borrowed; null, as at first: nobody.
  void set_team(OpTeam* team) { team_ = team; }
  bool has_team() const { return team_ != nullptr; }
  // Runs body(own, part) for each part in [0, parts) once, on this thread or on those of the team,
  // and returns when all are done. `own` is the context of the thread that runs the part; a part
  // reads this one's scratch and asks for scratch of its own there. 0 <= parts < 2^16.
  void Share(int parts, const std::function<void(OpContext& own, int part)>& body);

  // Objects that an op keeps between calls (tables, library handles) and creates on first use.
  enum class Keep { kGemm, kRope, kCount };
  std::shared_ptr<void>& Kept(Keep what) { return kept_[static_cast<int>(what)]; }

 private:
  Isa isa_;
  OpTeam* team_ = nullptr;
  struct FreeDeleter {
    void operator()(float* p) const;
  };
  struct Slot {
    std::unique_ptr<float[], FreeDeleter> data;
    int64_t count = 0;
  };
  std::vector<Slot> slots_;
  std::shared_ptr<void> kept_[static_cast<int>(Keep::kCount)];
};

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_CPU_OP_CONTEXT_H_
