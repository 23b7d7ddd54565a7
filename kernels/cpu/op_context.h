// The context that every op receives: the instruction set to use and scratch memory. One per
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

namespace recollect::kernels {

// kScalar is the double-precision reference; the others are vector code chosen by cpuid at run
// time.
enum class Isa { kScalar, kAvx2, kAvx512 };

// Returns the best instruction set of this machine, within RECOLLECT_MAX_ISA if it is set.
Isa DetectIsa();
const char* IsaName(Isa isa);  // "scalar", "avx2", "avx512"

// Names what an OpContext keeps: every variable of this type is a name of its own, so it is static
// and beside the code that uses it.
//   constexpr ScratchName kKeys;  …  float* keys = ctx.Floats(kKeys, count);
struct ScratchName {
  char own_address = 0;
};

class OpTeam;

// Not thread-safe: one per thread. Scratch returned by Floats(name, n) stays valid until the same
// name is asked for again with a larger n. 64-byte aligned, uninitialised.
class OpContext {
 public:
  explicit OpContext(Isa isa = DetectIsa()) : isa_(isa) {}
  Isa isa() const { return isa_; }
  float* Floats(const ScratchName& name, int64_t count);

  // The threads that share this thread's ops (op_team.h). Borrowed; null, as at first: nobody.
  void set_team(OpTeam* team) { team_ = team; }
  bool has_team() const { return team_ != nullptr; }
  OpTeam* team() { return team_; }
  // Runs body(own, part) for each part in [0, parts) once, on this thread or on those of the team,
  // and returns when all are done. `own` is the context of the thread that runs the part; a part
  // reads this one's scratch and asks for scratch of its own there. 0 <= parts < 2^16.
  void Share(int parts, const std::function<void(OpContext& own, int part)>& body);

  // Objects that an op keeps between calls (tables, library handles) and creates on first use.
  std::shared_ptr<void>& Kept(const ScratchName& name) { return kept_[&name]; }

 private:
  Isa isa_;
  OpTeam* team_ = nullptr;
  struct FreeDeleter {
    void operator()(float* p) const;
  };
  struct Scratch {
    std::unique_ptr<float[], FreeDeleter> data;
    int64_t count = 0;
  };
  std::unordered_map<const ScratchName*, Scratch> scratch_;
  std::unordered_map<const ScratchName*, std::shared_ptr<void>> kept_;
};

}  // namespace recollect::kernels
