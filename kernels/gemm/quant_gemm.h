// Products with quantised weights: y = x Wᵀ, where W keeps the few bits that its file has.
//
// A row of x is rounded in groups of 32 numbers. With m the largest |x| of a group,
//
//   a = m / 127,  c_i = the integer nearest to x_i (127 / m), ties to even,  x_i is about a c_i
//
// each operation in fp32. A group with m < 2^-100 is zero. One with a NaN or an infinity makes all
// outputs of the row NaN. Weights are s q + u with an integer q (kernels/quant/quant_blocks.h); s
// and u are exact in fp32. An output begins with 0 and takes the groups in order of k:
//
//   y = fma(float(Σ c q), a s, y), for Q6_K first for 16 numbers and then for the other 16;
//   y = fma(a float(Σ c), u, y), if the format has u
//
// a s and a float(Σ c) are rounded to fp32. The sums of integers are exact. So every output has the
// same bits on every instruction set, the scalar reference included, for any number of rows and at
// any place among them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cpu/op_context.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/quant_layout.h"

namespace recollect::kernels {

// Weights [n, k] in panels (quant_layout.h). Immutable, thread-safe, owns its memory.
class QuantMatrix {
 public:
  // Packs tensors as PackedMatrix::CreateQuantized does.
  static absl::StatusOr<QuantMatrix> Create(std::span<const QuantRows> parts, int64_t k);

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  int64_t bytes() const { return bytes_; }
  // The parts in the order of their outputs.
  std::span<const QuantPanels> parts() const { return parts_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const;
  };
  int64_t n_ = 0;
  int64_t k_ = 0;
  int64_t bytes_ = 0;
  std::unique_ptr<uint8_t[], Free> panels_;
  std::vector<QuantPanels> parts_;  // point into panels_
};

// The code of one instruction set.
struct QuantCode {
  const char* name = "";
  RoundQuantRows* round = nullptr;
  MultiplyQuantPanels* multiply = nullptr;
  int64_t fewest_rows = 0;  // from which on it is the fastest
};

// Returns the codes that this machine can run within the limit of `isa`, the reference first:
// "scalar", "avx2", "avx512_vnni", "amx". DNNL_MAX_CPU_ISA limits them, too.
std::vector<QuantCode> QuantCodes(Isa isa);

// Computes y[rows, n] = x[rows, k] Wᵀ by the best code for that many rows; fp32, row-major and
// dense.
void QuantGemm(OpContext& ctx, const QuantMatrix& weights, const float* x, int64_t rows, float* y);
// Lists for the team of `ctx` the weights that those who serve it are to read (read_ahead.h).
void ReadQuantSoon(OpContext& ctx, const QuantMatrix& weights);
// Computes the same by a given code.
void QuantGemmBy(OpContext& ctx, const QuantCode& code, const QuantMatrix& weights, const float* x,
                 int64_t rows, float* y);

}  // namespace recollect::kernels
