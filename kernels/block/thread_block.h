// A thread block on the device. The kernels' bodies (*_kernel.h) are templates over a block,
// written as phases, each a function of the thread's number:
//   typename Block::template PerThread<Floats<4>> sums(block);   // registers
//   block.Run([&](int t) { sums[t] = …; });                      // no barrier
//   block.XorSum(sums, 8);                                       // over lanes of a warp
//   block.Phase([&](int t) { shared.scores[t] = …; });           // ends with a barrier
//   block.CopyBeside(from, to); … block.AwaitCopies();           // to shared memory meanwhile
//   block.MultiplyAdd(a, 0, b, 0, c, 0);                         // tensor cores, warp by warp
// so that a test without a GPU can run a kernel's own code with a host block
// (tests/kernels/device/host_block.h). Code between phases runs in every thread and must compute
// the same values in all of them.
#pragma once

#include "kernels/cuda/cuda_math.h"

namespace recollect::kernels::cuda {

// Shared memory that a thread block may have without asking for more.
constexpr int kPlainSharedBytes = 48 * 1024;

// An array that registers can hold: index it by constants, in unrolled loops.
template <int kCount>
struct Floats {
  float v[kCount];
};

// How lane l of a warp holds the matrices of a product on tensor cores (PTX ISA, "Matrix Fragments
// for mma.m16n8k16"), with g = l / 4 and p = 2 (l % 4), as (row, column):
//   a [16, 16]: words (g, p) (g, p + 1) | (g + 8, p) … | (g, p + 8) … | (g + 8, p + 8) …
//   b [16, 8]:  words (p, g) (p + 1, g) | (p + 8, g) (p + 9, g)
//   c [16, 8]:  floats (g, p), (g, p + 1), (g + 8, p), (g + 8, p + 1)
constexpr int kMatrixWarp = 32;

#if defined(__CUDACC__)
// The methods are marked for the host as well, where they do nothing: nvcc compiles a body for both
// sides, and calls it on the device only.
class CudaBlock {
 public:
  template <typename T>
  class PerThread {
   public:
    RECOLLECT_HD explicit PerThread(const CudaBlock&) {}
    RECOLLECT_HD T& operator[](int) { return value_; }

   private:
    T value_;
  };

  template <typename Function>
  RECOLLECT_HD void Run(Function function) {
#if defined(__CUDA_ARCH__)
    function(static_cast<int>(threadIdx.x));
#endif
  }
  template <typename Function>
  RECOLLECT_HD void Phase(Function function) {
    Run(function);
    Barrier();
  }
  RECOLLECT_HD void Barrier() {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
  // Runs function(block) in the first `count` warps only; it must not contain a barrier.
  template <typename Function>
  RECOLLECT_HD void FirstWarps(int count, Function function) {
#if defined(__CUDA_ARCH__)
    if (static_cast<int>(threadIdx.x) / kMatrixWarp < count) function(*this);
#endif
  }
  // Copies eight Bf16 to shared memory asynchronously; both addresses are multiples of 16 bytes.
  // The thread sees the copy after its AwaitCopies, other threads after a barrier that follows it.
  RECOLLECT_HD void CopyBeside(const uint16_t* from, uint16_t* to) {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(__cvta_generic_to_global(from))
                 : "memory");
#endif
  }
  RECOLLECT_HD void AwaitCopies() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }
  // Gives each thread the sum, or the maximum, over its group of `lanes` neighbouring threads.
  template <int kCount>
  RECOLLECT_HD void XorSum(PerThread<Floats<kCount>>& values, int lanes) {
    Exchange(values, lanes, [](float a, float b) { return Add(a, b); });
  }
  template <int kCount>
  RECOLLECT_HD void XorMax(PerThread<Floats<kCount>>& values, int lanes) {
    Exchange(values, lanes, [](float a, float b) { return Max(a, b); });
  }
  // Increments a counter in shared memory and returns its previous value.
  RECOLLECT_HD int Increment(int* counter) {
#if defined(__CUDA_ARCH__)
    return atomicAdd(counter, 1);
#else
    return (*counter)++;
#endif
  }
  // Adds to a sum in shared memory.
  RECOLLECT_HD void AddTo(uint32_t* sum, uint32_t number) {
#if defined(__CUDA_ARCH__)
    atomicAdd(sum, number);
#else
    *sum += number;
#endif
  }
  RECOLLECT_HD void AddTo(uint64_t* sum, uint64_t number) {
#if defined(__CUDA_ARCH__)
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), number);
#else
    *sum += number;
#endif
  }
  // Loads, in each warp, four matrices of 8 x 8 Bf16 from shared memory: word to[at + m] of each
  // lane gets (g, p) and (g, p + 1) of matrix m, or of its transpose. Lane l passes the address of
  // row l % 8 of matrix l / 8, a multiple of 16 bytes.
  template <bool kTransposed, int kCount>
  RECOLLECT_HD void LoadMatrices(PerThread<const uint16_t*>& rows, PerThread<Words<kCount>>& to,
                                 int at) {
#if defined(__CUDA_ARCH__)
    const auto row = static_cast<uint32_t>(__cvta_generic_to_shared(rows[0]));
    uint32_t* const v = to[0].v + at;
    if constexpr (kTransposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "r"(row)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "r"(row)
                   : "memory");
    }
#endif
  }
  // c += a b on tensor cores, in each warp, using the words and floats from `…_at` on. A number of
  // c depends on its row of a and column of b alone; the hardware determines the order of the sum.
  template <int kA, int kB, int kC>
  RECOLLECT_HD void MultiplyAdd(PerThread<Words<kA>>& a, int a_at, PerThread<Words<kB>>& b,
                                int b_at, PerThread<Floats<kC>>& c, int c_at) {
#if defined(__CUDA_ARCH__)
    const uint32_t* const x = a[0].v + a_at;
    const uint32_t* const y = b[0].v + b_at;
    float* const sum = c[0].v + c_at;
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
#endif
  }

 private:
  template <int kCount, typename Operation>
  RECOLLECT_HD void Exchange(PerThread<Floats<kCount>>& values, int lanes, Operation operation) {
#if defined(__CUDA_ARCH__)
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        float& value = values[0].v[i];
        value = operation(value, __shfl_xor_sync(0xffffffffu, value, distance));
      }
    }
#endif
  }
};
#endif  // defined(__CUDACC__)

}  // namespace recollect::kernels::cuda
