#include "kernels/gemm/gemm_cuda_plan.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/status.h"

namespace recollect::kernels {
namespace {

constexpr int64_t kBf16Multiple = 8;
constexpr int64_t kMaxSide = int64_t{1} << 28;  // bytes of a matrix stay within 64 bits

// Around the sides of the tiles that algorithms have, and what decode steps and prefills bring.
constexpr int64_t kTestedRows[] = {1,   2,   3,   4,   5,   7,   8,    12,   16,
                                   17,  24,  32,  33,  48,  63,  64,   65,   96,
                                   127, 128, 192, 256, 384, 512, 1000, 2048, 4096};
constexpr int64_t kTileRows = 64;

// A product is never of more rows than were tested, and what is tested takes device memory for y.
constexpr int64_t kMaxRows = 8192, kMinRows = 512;
constexpr int64_t kTestBytes = int64_t{256} << 20;

const char* NameOf(DType dtype) { return dtype == DType::kBf16 ? "bf16" : "fp32"; }

// Whether the row has the same bits in products of all these numbers of rows. One row alone has
// only one place, which is tried as often as the others: a result must repeat, too.
absl::StatusOr<bool> Agrees(int algorithm, std::span<const int64_t> row_counts,
                            const GemmTrial& trial) {
  std::string expected;
  for (int64_t rows : row_counts) {
    for (int64_t place : {int64_t{0}, rows / 2, rows - 1}) {
      absl::StatusOr<std::string> row = trial(algorithm, rows, place);
      if (absl::IsUnimplemented(row.status())) return false;
      if (!row.ok()) return row.status();
      if (expected.empty()) expected = *row;
      if (*row != expected) return false;
    }
  }
  return true;
}

absl::Status CheckAligned(const GemmShape& shape, const char* what, const void* pointer,
                          int64_t alignment) {
  if (reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(alignment) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("product of ", NameOf(shape), ": ", what, " begin ",
                   reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(alignment),
                   " bytes past a multiple of ", alignment));
}

}  // namespace

absl::Status CheckGemmShape(const GemmShape& shape) {
  const std::string name = NameOf(shape);
  if (shape.n < 1 || shape.k < 1 || shape.n > kMaxSide || shape.k > kMaxSide) {
    return absl::InvalidArgumentError(
        absl::StrCat("product of ", name, ", expected sides of 1 to ", kMaxSide));
  }
  if (shape.in == DType::kBf16 && (shape.n % kBf16Multiple != 0 || shape.k % kBf16Multiple != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("product of ", name, ", expected multiples of ", kBf16Multiple));
  }
  if (shape.in == DType::kFloat32 && shape.out == DType::kBf16) {
    return absl::InvalidArgumentError(
        absl::StrCat("product of ", name, ", expected fp32 from fp32"));
  }
  return absl::OkStatus();
}

std::string NameOf(const GemmShape& shape) {
  return absl::StrCat(shape.n, " x ", shape.k, " ", NameOf(shape.in), " to ", NameOf(shape.out));
}

int64_t BytesOf(DType dtype) { return dtype == DType::kBf16 ? 2 : 4; }

int64_t RowAlignment(int64_t row_bytes) { return std::min<int64_t>(16, row_bytes & -row_bytes); }

absl::Status CheckGemmAddresses(const GemmShape& shape, const void* weights, const void* x,
                                const void* y) {
  RETURN_IF_ERROR(CheckAligned(shape, "weights", weights, kGemmWeightsAlignment));
  RETURN_IF_ERROR(CheckAligned(shape, "x", x, RowAlignment(shape.k * BytesOf(shape.in))));
  return CheckAligned(shape, "y", y, RowAlignment(shape.n * BytesOf(shape.out)));
}

int64_t MostTestedRows(const GemmShape& shape) {
  return std::clamp(kTestBytes / (shape.n * BytesOf(shape.out)), kMinRows, kMaxRows);
}

absl::StatusOr<GemmPlan> ChooseGemm(const GemmShape& shape, int algorithms,
                                    const GemmTrial& trial) {
  const int64_t most_rows = MostTestedRows(shape);
  std::vector<int64_t> tested;
  for (int64_t rows : kTestedRows) {
    if (rows < most_rows) tested.push_back(rows);
  }
  tested.push_back(most_rows);
  const int64_t tile[] = {kTileRows}, single[] = {1};
  for (const std::span<const int64_t> row_counts :
       {std::span<const int64_t>(tested), {tile}, {single}}) {
    for (int algorithm = 0; algorithm < algorithms; ++algorithm) {
      ASSIGN_OR_RETURN(const bool agrees, Agrees(algorithm, row_counts, trial));
      if (agrees) return GemmPlan{algorithm, row_counts.back(), row_counts.size() == 1};
    }
  }
  return absl::UnimplementedError(absl::StrCat("product of ", NameOf(shape), ": none of ",
                                               algorithms, " algorithms runs here"));
}

GemmPiece PieceAt(const GemmPlan& plan, int64_t first, int64_t rows) {
  const int64_t filled = std::min(plan.piece_rows, rows - first);
  return {filled, plan.whole ? plan.piece_rows : filled};
}

}  // namespace recollect::kernels
