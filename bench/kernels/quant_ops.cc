// Products with quantised weights, at the shapes of SmolLM2-135M: width 576, 9 heads of 64 with 3
// of keys and values, FFN 1536, vocabulary 49152.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "bench/kernels/op_report.h"
#include "kernels/gemm/quant_gemm.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

constexpr int64_t kModelWidth = 576, kModelFfn = 1536, kLayers = 30, kWords = 49152;
constexpr int64_t kQueryKeyValue = (9 + 2 * 3) * 64;

// Random codes; scales are small numbers of fp16.
std::vector<std::byte> Blocks(QuantFormat format, int64_t numbers) {
  const QuantTraits traits = TraitsOf(format);
  std::vector<std::byte> blocks(numbers / traits.block * traits.block_bytes);
  std::mt19937 generator(1);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(generator());
  const uint16_t small[] = {0x1c00, 0x9c00};
  for (size_t at = 0; at < blocks.size(); at += traits.block_bytes) {
    std::memcpy(&blocks[at], small, format == QuantFormat::kQ8_0 ? 2 : 4);
    if (format == QuantFormat::kQ6_K) std::memcpy(&blocks[at + traits.block_bytes - 2], small, 2);
  }
  return blocks;
}

QuantMatrix Matrix(QuantFormat format, int64_t n, int64_t k) {
  const std::vector<std::byte> blocks = Blocks(format, n * k);
  const QuantRows part{format, blocks.data(), n};
  auto matrix = QuantMatrix::Create({&part, 1}, k);
  RECOLLECT_CHECK(matrix.ok());
  return *std::move(matrix);
}

// A few rows are bound by the weights' bytes, many by products of 8-bit integers.
Work WorkOf(const OpReport& report, const std::vector<QuantMatrix>& matrices, int64_t rows) {
  Work work;
  for (const QuantMatrix& matrix : matrices) {
    work.flops += 2.0 * static_cast<double>(rows * matrix.n() * matrix.k());
    work.bytes += static_cast<double>(matrix.bytes()) + Floats(rows * (matrix.n() + matrix.k()));
  }
  if (rows > 1) work.flops_ceiling = report.ceilings().int8_flops;
  return work;
}

// Every code, checked against the reference bit by bit.
void AddProducts(OpReport& report, const std::string& name, std::vector<QuantMatrix> matrices,
                 const std::vector<int64_t>& row_counts) {
  int64_t widest_k = 0, widest_n = 0;
  for (const QuantMatrix& matrix : matrices) {
    widest_k = std::max(widest_k, matrix.k());
    widest_n = std::max(widest_n, matrix.n());
  }
  OpContext ctx;
  for (const int64_t rows : row_counts) {
    const std::vector<float> x = Numbers(rows * widest_k, 2);
    std::vector<float> y(rows * widest_n), expected(rows * widest_n);
    const std::vector<QuantCode> codes = QuantCodes(DetectIsa());
    QuantGemmBy(ctx, codes.front(), matrices.back(), x.data(), rows, expected.data());
    for (size_t c = 1; c < codes.size(); ++c) {
      const auto run = [&] {
        for (const QuantMatrix& matrix : matrices) {
          QuantGemmBy(ctx, codes[c], matrix, x.data(), rows, y.data());
        }
      };
      run();
      RECOLLECT_CHECK(
          std::memcmp(y.data(), expected.data(), rows * matrices.back().n() * sizeof(float)) == 0);
      report.Add(name + " " + std::to_string(rows), codes[c].name, rows,
                 WorkOf(report, matrices, rows), run);
    }
  }
}

std::vector<QuantMatrix> One(QuantFormat format, int64_t n, int64_t k) {
  std::vector<QuantMatrix> matrices;
  matrices.push_back(Matrix(format, n, k));
  return matrices;
}

// All products of a step one after the other; its 96 MB of weights are larger than a second-level
// cache.
std::vector<QuantMatrix> Step() {
  std::vector<QuantMatrix> matrices;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    matrices.push_back(Matrix(QuantFormat::kQ4_1, kQueryKeyValue, kModelWidth));
    matrices.push_back(Matrix(QuantFormat::kQ4_1, kModelWidth, kModelWidth));
    matrices.push_back(Matrix(QuantFormat::kQ4_1, 2 * kModelFfn, kModelWidth));
    matrices.push_back(Matrix(QuantFormat::kQ4_1, kModelWidth, kModelFfn));
  }
  return matrices;
}

}  // namespace

void BenchQuantProducts(OpReport& report) {
  const std::vector<int64_t> rows = {1, 4, 8, kRows, 512};
  for (const auto& [n, k] : {std::pair{kQueryKeyValue, kModelWidth},
                             {kModelWidth, kModelWidth},
                             {2 * kModelFfn, kModelWidth},
                             {kModelWidth, kModelFfn}}) {
    AddProducts(report, "Q4_1 " + std::to_string(k) + "x" + std::to_string(n),
                One(QuantFormat::kQ4_1, n, k), rows);
  }
  for (const QuantFormat format : kQuantFormats) {
    AddProducts(report, std::string(TraitsOf(format).name) + " 1536x576",
                One(format, kModelWidth, kModelFfn), {1, kRows});
  }
  AddProducts(report, "Q8_0 head", One(QuantFormat::kQ8_0, kWords, kModelWidth), {1, kRows});
  AddProducts(report, "Q4_1 layers of a step", Step(), {1, kRows});
}

}  // namespace recollect::bench
