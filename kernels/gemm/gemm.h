// The one function all matrix products go through: y = x Wᵀ with W prepacked.
//
// Same rows, same bits: a row's result does not depend on how many rows came with it, on its place
// among them, or on threads. Products are computed by oneDNN in tiles of 64, 16, 8, 4 or 1 rows, K
// never split; when a shape of weights is first met, the tile sizes are compared bit by bit on test
// numbers, and a size that differs from the 16-row tile is never used for that shape. So is our own
// code for 16 rows of bf16 and more on AMX (gemm_amx.h). Below AVX-512 our own fp32 kernel takes
// over (gemm_panel.h says why). Quantised weights have kernels of their own (quant_gemm.h), whose
// bits are the same on every instruction set, too. This is the mechanism behind "same tokens"
// (design section 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numeric/bf16.h"
#include "base/types.h"
#include "kernels/cpu/op_context.h"
#include "kernels/quant/quant_blocks.h"

namespace recollect::kernels {

// Rows of one tensor in blocks (kernels/quant/quant_blocks.h), at any address.
struct QuantRows {
  QuantFormat format = QuantFormat::kQ8_0;
  const std::byte* blocks = nullptr;
  int64_t rows = 0;
};

// A weight matrix [n, k] packed for one number format. Immutable, thread-safe, owns its memory.
class PackedMatrix {
 public:
  // `weights` is row-major [n, k] fp32, borrowed for the call only. kBf16 rounds it to bf16 and
  // needs a CPU for which Bf16Supported(); else FAILED_PRECONDITION. n, k >= 1. `for_team`: a team
  // is to share its products, which costs test products for each new shape.
  static absl::StatusOr<PackedMatrix> Create(const float* weights, int64_t n, int64_t k,
                                             DType dtype, bool for_team = false);
  // Tensors stacked by their rows, [sum of rows, k], borrowed for the call only; their formats may
  // differ. The weights keep the bits that they have (kernels/gemm/quant_gemm.h says how they are
  // multiplied, quant_layout.h how they lie in memory). INVALID_ARGUMENT if k is no multiple of a
  // format's block, or if a tensor has no rows.
  static absl::StatusOr<PackedMatrix> CreateQuantized(std::span<const QuantRows> parts, int64_t k);
  PackedMatrix();  // empty; only to be assigned to
  ~PackedMatrix();
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;

  int64_t n() const;
  int64_t k() const;
  DType dtype() const;  // kFloat32 of quantised weights, whose x is not rounded to bf16
  int64_t bytes() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// True where oneDNN has a native bf16 product (AVX512-BF16 or AMX).
bool Bf16Supported();

// y[rows, n] = x[rows, k] Wᵀ, fp32 in and out, row-major and dense; with kBf16, x is rounded to
// bf16 first and sums are fp32. Runs on the calling thread; a quantised product, and one of weights
// that are for a team, on its team, too (op_team.h). rows >= 0. x and y do not overlap.
void Gemm(OpContext& ctx, const PackedMatrix& weights, const float* x, int64_t rows, float* y);

// Lists for the team of `ctx`, if there is one, the weights that a row's product with it reads
// (kernels/cpu/read_ahead.h), in the order in which those who serve take them. Does nothing where
// Gemm does not divide a row's product.
void ReadSoon(OpContext& ctx, const PackedMatrix& weights);

// Gemm from plain weights [n, k], summed in double: what Gemm is tested against.
void GemmReference(const float* weights, int64_t n, int64_t k, DType dtype, const float* x,
                   int64_t rows, float* y);

// The tile sizes in use for this matrix, largest first.
std::vector<int> GemmTileRows(const PackedMatrix& weights);

}  // namespace recollect::kernels
