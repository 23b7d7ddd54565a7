// A thread block on the device. The kernels' bodies (*_block.h) are templates over a block, written
// as phases, each a function of the thread's number:
//   typename Block::template PerThread<Floats<4>> sums(block);   // registers
//   block.Run([&](int t) { sums[t] = …; });                      // no barrier
//   block.XorSum(sums, 8);                                       // over lanes of a warp
//   block.Phase([&](int t) { shared.scores[t] = …; });           // ends with a barrier
// so that a test without a GPU runs the very code of a kernel with a block of its own
// (tests/kernels/host_block.h). What stands between phases runs in every thread: it must have the
// same value in all of them.
#ifndef RECOLLECT_KERNELS_THREAD_BLOCK_H_
#define RECOLLECT_KERNELS_THREAD_BLOCK_H_

#include "kernels/cuda_math.h"

namespace recollect::kernels::cuda {

// Shared memory that a thread block may have without asking for more.
constexpr int kPlainSharedBytes = 48 * 1024;

// An array that registers can hold: index it by constants, in unrolled loops.
template <int kCount>
struct Floats {
  float v[kCount];
};

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
  // In each group of `lanes` neighbouring threads: their sum, or greatest, to each of them.
  template <int kCount>
  RECOLLECT_HD void XorSum(PerThread<Floats<kCount>>& values, int lanes) {
    Exchange(values, lanes, [](float a, float b) { return Add(a, b); });
  }
  template <int kCount>
  RECOLLECT_HD void XorMax(PerThread<Floats<kCount>>& values, int lanes) {
    Exchange(values, lanes, [](float a, float b) { return Max(a, b); });
  }
  // The value before, of a counter in shared memory.
  RECOLLECT_HD int Increment(int* counter) {
#if defined(__CUDA_ARCH__)
    return atomicAdd(counter, 1);
#else
    return (*counter)++;
#endif
  }
  // To a sum in shared memory.
  RECOLLECT_HD void AddTo(uint64_t* sum, uint64_t number) {
#if defined(__CUDA_ARCH__)
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), number);
#else
    *sum += number;
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

#endif  // RECOLLECT_KERNELS_THREAD_BLOCK_H_
