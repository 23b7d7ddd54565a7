// Chooses which of cuBLASLt's algorithms a device product uses (kernels/gemm/gemm_cuda.h), and into
// which products its rows are divided. Host code without CUDA, so that every machine tests it.
//   plan = ChooseGemm(shape, algorithms, trial);
//   for (first = 0; first < rows; first += piece.rows) piece = PieceAt(plan, first, rows);
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"

namespace recollect::kernels {

// Products y[rows, n] = x[rows, k] Wᵀ, or with `add` y += x Wᵀ, of any number of rows.
struct GemmShape {
  int64_t n = 0;
  int64_t k = 0;
  DType in = DType::kFloat32;   // x and W
  DType out = DType::kFloat32;  // y; kBf16 only where `in` is, and not with `add`
  bool add = false;

  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

// INVALID_ARGUMENT unless n and k are 1 to 2^28, both multiples of 8 where `in` is bf16 (its
// products load 16 bytes at once), and `out` is fp32 or `in`'s format; fp32 with `add`, since
// cuBLASLt rounds a product to bf16 before it adds, and the sum once more.
absl::Status CheckGemmShape(const GemmShape& shape);

// "1280 x 256 bf16 to fp32", for messages.
std::string NameOf(const GemmShape& shape);

int64_t BytesOf(DType dtype);

// The alignment of every row of `row_bytes` bytes when the first is aligned to 16 bytes; at most
// 16.
int64_t RowAlignment(int64_t row_bytes);

inline constexpr int kGemmWeightsAlignment = 16;

// INVALID_ARGUMENT unless weights begin at a multiple of kGemmWeightsAlignment bytes, and x and y
// at one of 16, or at a whole number of rows past one.
absl::Status CheckGemmAddresses(const GemmShape& shape, const void* weights, const void* x,
                                const void* y);

// The most rows that ChooseGemm tries, and that a product ever has: some thousand, fewer where
// their results would take much memory.
int64_t MostTestedRows(const GemmShape& shape);

// Numbers of rows that one algorithm multiplies in one product.
struct GemmRange {
  int64_t min_rows = 0, max_rows = 0;
  int algorithm = 0;  // index into the algorithms offered
  friend bool operator==(const GemmRange&, const GemmRange&) = default;
};

struct GemmPlan {
  // At least one, from few rows to many, none overlapping. Numbers of rows that are in none are
  // padded to the next range's min_rows.
  std::vector<GemmRange> ranges;

  int64_t piece_rows() const { return ranges.back().max_rows; }  // the most rows of one product
  // The most rows that a product is padded to; 0: none is.
  int64_t padded_rows() const;
  // Exactly piece_rows() in every product: slow.
  bool whole() const {
    return ranges.size() == 1 && ranges.front().min_rows == ranges.front().max_rows;
  }
};

// "1 to 64 rows: algorithm 3; 65 to 8192 rows: algorithm 0", for messages.
std::string NameOf(const GemmPlan& plan);

// Returns the bytes of a row's results when algorithm `algorithm` computes the row at `place` among
// `rows` rows. Every call computes the same row (or the same few rows in turn, one after the other
// at `place`, with their results in order); the other rows may be any. UNIMPLEMENTED when the
// algorithm cannot.
using GemmTrial =
    std::function<absl::StatusOr<std::string>(int algorithm, int64_t rows, int64_t place)>;

// Chooses the first of `algorithms` that gives the row the same bits at the beginning, middle and
// end of every tested number of rows, from 1 to MostTestedRows. If there is none, chooses ranges of
// several algorithms that all give the same bits, so that few rows are padding and few products are
// needed; in the worst case tiles of one size, or single rows, which are invariant by construction.
// Nothing is timed, since another run could then choose another algorithm and give other bits.
// UNIMPLEMENTED when no algorithm runs; any other status of a trial is returned unchanged, because
// a machine short of memory must not choose differently.
absl::StatusOr<GemmPlan> ChooseGemm(const GemmShape& shape, int algorithms, const GemmTrial& trial);

// Rows of a call that one product computes. It has product_rows >= rows rows: those beyond are
// padding.
struct GemmPiece {
  int64_t rows = 0;
  int64_t product_rows = 0;
  int algorithm = 0;
};

// The next product of a call with `rows` rows, of which the first `first` < rows are done.
GemmPiece PieceAt(const GemmPlan& plan, int64_t first, int64_t rows);

// The product of GemmCuda::Run (gemm_cuda.h). Pointers are device memory, borrowed until the work
// is done.
struct GemmOp {
  GemmShape shape;
  const void* weights = nullptr;  // [n, k]
  const void* x = nullptr;        // [rows, k]
  int64_t rows = 0;
  void* y = nullptr;  // [rows, n]
  friend bool operator==(const GemmOp&, const GemmOp&) = default;
};

}  // namespace recollect::kernels
