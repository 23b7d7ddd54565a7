// Which of cuBLASLt's algorithms a device product uses (kernels/gemm_cuda.h), and into which
// products its rows are cut: host code without CUDA, so that every machine tests it.
//   plan = ChooseGemm(shape, algorithms, trial);
//   for (first = 0; first < rows; first += piece.rows) piece = PieceAt(plan, first, rows);
#ifndef RECOLLECT_KERNELS_GEMM_CUDA_PLAN_H_
#define RECOLLECT_KERNELS_GEMM_CUDA_PLAN_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"

namespace recollect::kernels {

// Products y[rows, n] = x[rows, k] Wᵀ, or with `add` y += x Wᵀ, of any number of rows.
struct GemmShape {
  int64_t n = 0;
  int64_t k = 0;
  DType in = DType::kFloat32;   // x and W
  DType out = DType::kFloat32;  // y; kBf16 only where `in` is
  bool add = false;

  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

// INVALID_ARGUMENT unless n and k are 1 to 2^28, both multiples of 8 where `in` is bf16 (its
// products load 16 bytes at once), and `out` is a format that `in` can have.
absl::Status CheckGemmShape(const GemmShape& shape);

// "1280 x 256 bf16 to fp32", for messages.
std::string NameOf(const GemmShape& shape);

int64_t BytesOf(DType dtype);

// Where each row of `row_bytes` begins when the first begins at a multiple of 16 bytes: at
// multiples of this, up to 16.
int64_t RowAlignment(int64_t row_bytes);

inline constexpr int kGemmWeightsAlignment = 16;

// INVALID_ARGUMENT unless weights begin at a multiple of kGemmWeightsAlignment bytes, and x and y
// at one of 16, or at a whole number of rows past one.
absl::Status CheckGemmAddresses(const GemmShape& shape, const void* weights, const void* x,
                                const void* y);

// The most rows that ChooseGemm tries, and that a product ever has: some thousand, fewer where
// their results would take much memory.
int64_t MostTestedRows(const GemmShape& shape);

struct GemmPlan {
  int algorithm = 0;       // of those offered
  int64_t piece_rows = 0;  // of one product, at most
  bool whole = false;      // exactly piece_rows: what is missing is padded
};

// A row's results, as bytes, when algorithm `algorithm` computes that row at `place` among `rows`;
// always the same row, or the same few, one after the other, beside rows that may be any.
// UNIMPLEMENTED when the algorithm cannot.
using GemmTrial =
    std::function<absl::StatusOr<std::string>(int algorithm, int64_t rows, int64_t place)>;

// The first of `algorithms` by which the row has the same bits at the beginning, the middle and the
// end of as many rows as matter, 1 to MostTestedRows of them. If there is none, the first by which
// it has them at places of a tile of fixed size; and then one row at a time remains, which is
// invariant by construction. Nothing is timed: another run would choose another algorithm, and give
// other bits. UNIMPLEMENTED when no algorithm runs; any other status of a trial as it is, because
// what a machine short of memory chooses must not differ.
absl::StatusOr<GemmPlan> ChooseGemm(const GemmShape& shape, int algorithms, const GemmTrial& trial);

// Rows of a call that one product computes. It has product_rows >= rows rows: those beyond are
// padding.
struct GemmPiece {
  int64_t rows = 0;
  int64_t product_rows = 0;
};

// What to compute next of a call with `rows` rows, of which the `first` ones are done, not all.
GemmPiece PieceAt(const GemmPlan& plan, int64_t first, int64_t rows);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_GEMM_CUDA_PLAN_H_
