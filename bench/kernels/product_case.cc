#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/kernels/cuda_cases.h"
#include "kernels/gemm/gemm.h"

namespace recollect::bench {

using namespace recollect::kernels;

absl::Status Product(Report& report, const CublasLt& lt, Case c, const GemmShape& shape,
                     int64_t rows, int64_t times) {
  const Pattern<Bf16> weights(1), x(2);
  ASSIGN_OR_RETURN(const auto device_weights, Upload(weights, shape.n * shape.k, "weights"));
  ASSIGN_OR_RETURN(const auto device_x, Upload(x, rows * shape.k, "x"));
  ASSIGN_OR_RETURN(const auto y, DeviceArray<float>::Create(rows * shape.n, "y"));
  ASSIGN_OR_RETURN(const GemmCuda gemm, GemmCuda::Create(lt, shape));
  if (gemm.plan().whole()) absl::StrAppend(&c.name, ", in tiles of ", gemm.plan().piece_rows());
  c.flops = 2.0 * static_cast<double>(times * rows * shape.n * shape.k);
  c.bytes =
      static_cast<double>(times) * (sizeof(Bf16) * static_cast<double>((shape.n + rows) * shape.k) +
                                    sizeof(float) * static_cast<double>(rows * shape.n));
  return report.Measure(
      c,
      [&]() -> absl::Status {
        for (int64_t i = 0; i < times; ++i) {
          RETURN_IF_ERROR(
              gemm.Run(report.stream(), device_weights.get(), device_x.get(), rows, y.get()));
        }
        return absl::OkStatus();
      },
      [&]() -> absl::Status {
        std::vector<float> w;
        for (int64_t i = 0; i < shape.n * shape.k; ++i) w.push_back(weights[i].ToFloat());
        for (int64_t row : {int64_t{0}, rows - 1}) {
          std::vector<float> one, expected(shape.n);
          for (int64_t i = 0; i < shape.k; ++i) one.push_back(x[row * shape.k + i].ToFloat());
          GemmReference(w.data(), shape.n, shape.k, DType::kBf16, one.data(), 1, expected.data());
          ASSIGN_OR_RETURN(const std::vector<float> actual,
                           Download(y.get() + row * shape.n, shape.n));
          RETURN_IF_ERROR(ExpectClose(actual, expected, static_cast<double>(shape.k),
                                      absl::StrCat("row ", row)));
        }
        return absl::OkStatus();
      },
      rows == 1 || times > 1);
}

}  // namespace recollect::bench
