#include "kernels/gemm/gemm_cuda.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "base/io/log.h"
#include "base/numeric/bf16.h"
#include "kernels/cuda/cuda_status.h"

namespace recollect::kernels {
namespace {

// Numbers of rows that cuBLASLt is asked for its algorithms for, the ones that decide first. An
// estimate between decode and prefill: no device has measured it yet.
constexpr int64_t kTunedRows[] = {128, 16, 1024, 1, 4096};
constexpr int kAlgorithmsEach = 8;

// Test row r is row r % kDistinctRows: a prime, so that a row is at any place of any tile.
constexpr int64_t kDistinctRows = 61;
// Results that are compared for each number of rows and place: one row's, or those of as many.
constexpr int64_t kMinResults = 1024;

int64_t XRowBytes(const GemmShape& shape) { return shape.k * BytesOf(shape.in); }
int64_t YRowBytes(const GemmShape& shape) { return shape.n * BytesOf(shape.out); }

std::string NameOf(const GemmShape& shape, int64_t rows) {
  return absl::StrCat("product of ", rows, " rows, ", NameOf(shape));
}

cudaDataType_t ToCuda(DType dtype) { return dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_32F; }

// What cuBLASLt calls D = op(A) op(B) + beta C, all column-major: row-major memory is the transpose
// of itself there, so A is W [k, n] and transposed, B is x [k, rows], C and D are y [n, rows].
struct Description {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t weights, x, y;
};

cublasStatus_t Describe(const GemmShape& shape, int64_t rows, Description* to) {
  const cudaDataType_t in = ToCuda(shape.in);
  const auto n = static_cast<uint64_t>(shape.n), k = static_cast<uint64_t>(shape.k);
  const auto columns = static_cast<uint64_t>(rows);
  // Pedantic: fp32 products may be neither TF32 nor emulated.
  const cublasComputeType_t compute =
      shape.in == DType::kBf16 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_PEDANTIC;
  const int32_t transposed = CUBLAS_OP_T;
  for (const cublasStatus_t error :
       {cublasLtMatmulDescInit(&to->operation, compute, CUDA_R_32F),
        cublasLtMatmulDescSetAttribute(&to->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                       sizeof(transposed)),
        cublasLtMatrixLayoutInit(&to->weights, in, k, n, shape.k),
        cublasLtMatrixLayoutInit(&to->x, in, k, columns, shape.k),
        cublasLtMatrixLayoutInit(&to->y, ToCuda(shape.out), n, columns, shape.n)}) {
    if (error != CUBLAS_STATUS_SUCCESS) return error;
  }
  return CUBLAS_STATUS_SUCCESS;
}

absl::Status Multiply(cublasLtHandle_t handle, const GemmShape& shape,
                      const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream,
                      const void* weights, const void* x, int64_t rows, void* y) {
  Description description{};
  cublasStatus_t error = Describe(shape, rows, &description);
  if (error == CUBLAS_STATUS_SUCCESS) {
    const float alpha = 1, beta = shape.add ? 1 : 0;
    error = cublasLtMatmul(handle, &description.operation, &alpha, weights, &description.weights, x,
                           &description.x, &beta, y, &description.y, y, &description.y, &algorithm,
                           nullptr, 0, stream);
  }
  return error == CUBLAS_STATUS_SUCCESS ? absl::OkStatus()
                                        : CublasStatus(error, NameOf(shape, rows));
}

// Whether an algorithm that was found for some number of rows is one for this number, too.
// UNIMPLEMENTED: it is not.
absl::Status Check(cublasLtHandle_t handle, const GemmShape& shape,
                   const cublasLtMatmulAlgo_t& algorithm, int64_t rows) {
  Description description{};
  cublasLtMatmulHeuristicResult_t result{};
  cublasStatus_t error = Describe(shape, rows, &description);
  if (error == CUBLAS_STATUS_SUCCESS) {
    error = cublasLtMatmulAlgoCheck(handle, &description.operation, &description.weights,
                                    &description.x, &description.y, &description.y, &algorithm,
                                    &result);
  }
  if (error == CUBLAS_STATUS_SUCCESS && result.workspaceSize > 0) {
    error = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return error == CUBLAS_STATUS_SUCCESS ? absl::OkStatus()
                                        : CublasStatus(error, NameOf(shape, rows));
}

// Algorithms without workspace that cut no sum, for rows at any place.
cublasStatus_t Prefer(const GemmShape& shape, cublasLtMatmulPreferenceOpaque_t* preference) {
  const uint64_t workspace_bytes = 0;
  const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  const uint32_t weights = kGemmWeightsAlignment;
  const auto x = static_cast<uint32_t>(RowAlignment(XRowBytes(shape)));
  const auto y = static_cast<uint32_t>(RowAlignment(YRowBytes(shape)));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  for (const cublasStatus_t error : {cublasLtMatmulPreferenceInit(preference),
                                     set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes),
                                     set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction),
                                     set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, weights),
                                     set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, x),
                                     set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, y),
                                     set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, y)}) {
    if (error != CUBLAS_STATUS_SUCCESS) return error;
  }
  return CUBLAS_STATUS_SUCCESS;
}

// In cuBLASLt's order for kTunedRows, none twice.
absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> Algorithms(cublasLtHandle_t handle,
                                                             const GemmShape& shape) {
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  cublasLtMatmulPreferenceOpaque_t preference{};
  cublasStatus_t error = Prefer(shape, &preference);
  if (error != CUBLAS_STATUS_SUCCESS) return CublasStatus(error, NameOf(shape));
  for (int64_t rows : kTunedRows) {
    Description description{};
    error = Describe(shape, rows, &description);
    cublasLtMatmulHeuristicResult_t results[kAlgorithmsEach];
    int found = 0;
    if (error == CUBLAS_STATUS_SUCCESS) {
      error = cublasLtMatmulAlgoGetHeuristic(handle, &description.operation, &description.weights,
                                             &description.x, &description.y, &description.y,
                                             &preference, kAlgorithmsEach, results, &found);
    }
    if (error == CUBLAS_STATUS_NOT_SUPPORTED) continue;  // none for so many rows
    if (error != CUBLAS_STATUS_SUCCESS) return CublasStatus(error, NameOf(shape, rows));
    for (const cublasLtMatmulHeuristicResult_t& result : std::span(results).first(found)) {
      const auto same = [&](const cublasLtMatmulAlgo_t& other) {
        return std::memcmp(&other, &result.algo, sizeof(other)) == 0;
      };
      if (result.state == CUBLAS_STATUS_SUCCESS &&
          std::none_of(algorithms.begin(), algorithms.end(), same)) {
        algorithms.push_back(result.algo);
      }
    }
  }
  return algorithms;
}

// Rows of k numbers in [-1, 1), as bytes of `dtype`; a row's second half is the first one
// backwards, times `mirrored`. Rows of x and of weights with opposite signs there have products
// that cancel: what is left is what rounding left, which any other order of adding changes, and
// which shows in a bf16 result as well. `seed` goes on.
std::vector<char> TestRows(int64_t rows, int64_t k, float mirrored, DType dtype, uint32_t* seed) {
  std::vector<float> row(k);
  std::vector<char> bytes;
  bytes.reserve(rows * k * BytesOf(dtype));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k / 2; ++i) {
      *seed = *seed * 1664525u + 1013904223u;
      const int halvings = static_cast<int>(*seed >> 8 & 7);
      row[i] = std::ldexp(static_cast<float>(static_cast<int32_t>(*seed)), -31 - halvings);
      row[k - 1 - i] = mirrored * row[i];
    }
    for (const float number : row) {
      const Bf16 rounded = Bf16::FromFloat(number);
      const void* from = dtype == DType::kBf16 ? static_cast<const void*>(&rounded) : &number;
      bytes.insert(bytes.end(), static_cast<const char*>(from),
                   static_cast<const char*>(from) + BytesOf(dtype));
    }
  }
  return bytes;
}

void* At(const DeviceMemory& memory, int64_t offset) {
  return static_cast<char*>(memory.get()) + offset;
}

absl::Status Upload(const std::vector<char>& bytes, void* to) {
  return CudaStatus(cudaMemcpy(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                    "test numbers");
}

// Test weights and rows on the device, and the results of products with them.
class TestMemory {
 public:
  static absl::StatusOr<TestMemory> Create(const GemmShape& shape, int64_t most_rows) {
    const int64_t rows = most_rows + kDistinctRows - 1;  // the row at place 0 may be any
    TestMemory test;
    ASSIGN_OR_RETURN(test.weights_, AllocateDevice(shape.n * XRowBytes(shape)));
    ASSIGN_OR_RETURN(test.x_, AllocateDevice(rows * XRowBytes(shape)));
    ASSIGN_OR_RETURN(test.y_, AllocateDevice(rows * YRowBytes(shape)));
    uint32_t seed = 1;
    for (int64_t row = 0; row < shape.n; row += kDistinctRows) {  // in parts, to save host memory
      const int64_t part = std::min(kDistinctRows, shape.n - row);
      RETURN_IF_ERROR(Upload(TestRows(part, shape.k, 1, shape.in, &seed),
                             At(test.weights_, row * XRowBytes(shape))));
    }
    const std::vector<char> distinct = TestRows(kDistinctRows, shape.k, -1, shape.in, &seed);
    for (int64_t row = 0; row < rows; row += kDistinctRows) {
      const int64_t bytes = std::min(kDistinctRows, rows - row) * XRowBytes(shape);
      RETURN_IF_ERROR(Upload({distinct.begin(), distinct.begin() + bytes},
                             At(test.x_, row * XRowBytes(shape))));
    }
    return test;
  }

  // The results of the first test rows, each at `place` among `rows`: a GemmTrial.
  absl::StatusOr<std::string> Try(cublasLtHandle_t handle, const GemmShape& shape,
                                  const cublasLtMatmulAlgo_t& algorithm, int64_t rows,
                                  int64_t place) const {
    RETURN_IF_ERROR(Check(handle, shape, algorithm, rows));
    const int64_t x_row = XRowBytes(shape), y_row = YRowBytes(shape);
    const int64_t compared = std::clamp(kMinResults / shape.n, int64_t{1}, kDistinctRows);
    std::string results(compared * y_row, '\0');
    for (int64_t i = 0; i < compared; ++i) {
      const int64_t first = (i + kDistinctRows - place % kDistinctRows) % kDistinctRows;
      void* const result = At(y_, (first + place) * y_row);
      // Products that add begin with zeros: a larger number would hide the rest.
      RETURN_IF_ERROR(CudaStatus(cudaMemset(result, 0, y_row), NameOf(shape, rows)));
      const absl::Status multiplied = Multiply(handle, shape, algorithm, nullptr, weights_.get(),
                                               At(x_, first * x_row), rows, At(y_, first * y_row));
      // On a device that goes on, there are other algorithms.
      const bool failed = absl::IsInternal(multiplied) || absl::IsUnavailable(multiplied);
      if (failed && cudaStreamSynchronize(nullptr) == cudaSuccess) {
        return absl::UnimplementedError(multiplied.message());
      }
      RETURN_IF_ERROR(multiplied);
      RETURN_IF_ERROR(
          CudaStatus(cudaMemcpy(&results[i * y_row], result, y_row, cudaMemcpyDeviceToHost),
                     NameOf(shape, rows)));
    }
    return results;
  }

 private:
  DeviceMemory weights_, x_, y_;
};

}  // namespace

absl::StatusOr<GemmCuda> GemmCuda::Create(const CublasLt& lt, const GemmShape& shape) {
  RETURN_IF_ERROR(CheckGemmShape(shape));
  const std::string name = absl::StrCat("product of ", NameOf(shape));
  ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> algorithms,
                   Algorithms(lt.handle(), shape));
  absl::StatusOr<TestMemory> test = TestMemory::Create(shape, MostTestedRows(shape));
  if (!test.ok()) return Annotate(test.status(), name);
  ASSIGN_OR_RETURN(const GemmPlan plan, ChooseGemm(shape, static_cast<int>(algorithms.size()),
                                                   [&](int algorithm, int64_t rows, int64_t place) {
                                                     return test->Try(lt.handle(), shape,
                                                                      algorithms[algorithm], rows,
                                                                      place);
                                                   }));
  GemmCuda gemm(lt.handle(), shape);
  gemm.algorithms_ = algorithms;
  RETURN_IF_ERROR(gemm.Use(plan));
  return gemm;
}

absl::StatusOr<GemmCuda> GemmCuda::Restore(const CublasLt& lt, const GemmShape& shape,
                                           const GemmChoice& choice) {
  RETURN_IF_ERROR(CheckGemmShape(shape));
  GemmCuda gemm(lt.handle(), shape);
  for (const GemmAlgorithmBytes& bytes : choice.algorithms) {
    static_assert(sizeof(bytes) == sizeof(cublasLtMatmulAlgo_t));
    std::memcpy(&gemm.algorithms_.emplace_back(), &bytes, sizeof(bytes));
  }
  for (const GemmRange& range : choice.plan.ranges) {
    for (const int64_t rows : {range.min_rows, range.max_rows}) {
      RETURN_IF_ERROR(Check(lt.handle(), shape, gemm.algorithms_[range.algorithm], rows));
    }
  }
  RETURN_IF_ERROR(gemm.Use(choice.plan));
  return gemm;
}

GemmChoice GemmCuda::choice() const {
  GemmChoice choice;
  for (GemmRange range : plan_.ranges) {
    GemmAlgorithmBytes bytes;
    std::memcpy(&bytes, &algorithms_[range.algorithm], sizeof(bytes));
    range.algorithm = static_cast<int>(choice.algorithms.size());
    choice.plan.ranges.push_back(range);
    choice.algorithms.push_back(bytes);
  }
  return choice;
}

absl::StatusOr<GemmCuda> CudaGemms::Make(const GemmShape& shape) {
  if (const std::optional<GemmChoice> chosen = choices_.Find(shape)) {
    absl::StatusOr<GemmCuda> gemm = GemmCuda::Restore(lt_, shape, *chosen);
    if (gemm.ok() || absl::IsResourceExhausted(gemm.status())) return gemm;
  }
  ASSIGN_OR_RETURN(GemmCuda gemm, GemmCuda::Create(lt_, shape));
  const absl::Status kept = choices_.Keep(shape, gemm.choice());
  if (!kept.ok()) LogInfo("{}; the next start chooses again", kept.ToString());
  return gemm;
}

absl::Status GemmCuda::Use(const GemmPlan& plan) {
  plan_ = plan;
  const int64_t rows = plan.padded_rows();
  if (rows == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(padded_x_, AllocateDevice(rows * XRowBytes(shape_)));
  ASSIGN_OR_RETURN(padded_y_, AllocateDevice(rows * YRowBytes(shape_)));
  // What a padded row holds changes nothing; uninitialised it would only alarm tools.
  RETURN_IF_ERROR(CudaStatus(cudaMemset(padded_x_.get(), 0, rows * XRowBytes(shape_)), "tile"));
  RETURN_IF_ERROR(CudaStatus(cudaMemset(padded_y_.get(), 0, rows * YRowBytes(shape_)), "tile"));
  return CudaStatus(cudaStreamSynchronize(nullptr), "tile");  // for calls on other streams
}

absl::Status GemmCuda::Run(cudaStream_t stream, const void* weights, const void* x, int64_t rows,
                           void* y) const {
  const int64_t x_row = XRowBytes(shape_), y_row = YRowBytes(shape_);
  RETURN_IF_ERROR(CheckGemmAddresses(shape_, weights, x, y));
  const auto copy = [&](void* to, const void* from, int64_t bytes) {
    return CudaStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
                      NameOf(shape_, rows));
  };
  GemmPiece piece;
  for (int64_t first = 0; first < rows; first += piece.rows) {
    piece = PieceAt(plan_, first, rows);
    const char* piece_x = static_cast<const char*>(x) + first * x_row;
    char* piece_y = static_cast<char*>(y) + first * y_row;
    const cublasLtMatmulAlgo_t& algorithm = algorithms_[piece.algorithm];
    if (piece.rows == piece.product_rows) {
      RETURN_IF_ERROR(
          Multiply(handle_, shape_, algorithm, stream, weights, piece_x, piece.rows, piece_y));
      continue;
    }
    RETURN_IF_ERROR(copy(padded_x_.get(), piece_x, piece.rows * x_row));
    if (shape_.add) RETURN_IF_ERROR(copy(padded_y_.get(), piece_y, piece.rows * y_row));
    RETURN_IF_ERROR(Multiply(handle_, shape_, algorithm, stream, weights, padded_x_.get(),
                             piece.product_rows, padded_y_.get()));
    RETURN_IF_ERROR(copy(piece_y, padded_y_.get(), piece.rows * y_row));
  }
  return absl::OkStatus();
}

}  // namespace recollect::kernels
