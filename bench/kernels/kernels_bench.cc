// Each op at the sizes a served 7M model has (d 256, 4 heads of 64, FFN 640), one thread, each
// implementation of its table, as a fraction of the machine's ceilings.
//
//   kernels_bench [--json FILE] [--pretrained]
//
// ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 or AVX2 before it: the products of a lesser CPU. What is
// drawn of them is docs/profile.md.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/check.h"
#include "bench/kernels/ceilings.h"
#include "bench/kernels/op_report.h"
#include "kernels/cpu/op_context.h"
#include "kernels/gca/gca.h"
#include "kernels/gca/gca_bf16.h"
#include "kernels/gemm/gemm.h"
#include "kernels/linear_attention/linear_attention.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

void BenchGemm(OpReport& report) {
  OpContext ctx(ProductIsa() == "avx2" ? Isa::kAvx2 : DetectIsa());
  for (DType dtype : {DType::kBf16, DType::kFloat32}) {
    const bool bf16 = dtype == DType::kBf16;
    if (bf16 && !Bf16Supported()) continue;
    static_assert(5 * kWidth == 2 * kFfn);  // of a mixer's and of an FFN's first product
    for (auto [n, k] : {std::pair{5 * kWidth, kWidth},
                        {kWidth, kWidth},
                        {3 * kWidth, kWidth},  // in the chunk encoder
                        {kWidth, kFfn},
                        {kVocabulary, kWidth}}) {
      const std::vector<float> weights = Numbers(n * k, 1);
      auto matrix = PackedMatrix::Create(weights.data(), n, k, dtype);
      RECOLLECT_CHECK(matrix.ok());
      for (int64_t rows : {int64_t{1}, int64_t{8}, kRows}) {
        const std::vector<float> x = Numbers(rows * k, 2);
        std::vector<float> y(rows * n), expected(rows * n);
        Gemm(ctx, *matrix, x.data(), rows, y.data());
        GemmReference(weights.data(), n, k, dtype, x.data(), rows, expected.data());
        CheckClose(y, expected);
        report.Add(
            "gemm " + std::to_string(rows) + "x" + std::to_string(k) + "x" + std::to_string(n),
            bf16 ? "bf16" : "fp32", rows,
            {2.0 * static_cast<double>(rows * n * k),
             static_cast<double>(n * k) * (bf16 ? sizeof(Bf16) : sizeof(float)) +
                 Floats(rows * (n + k)),
             bf16 ? report.ceilings().bf16_flops : report.ceilings().fp32_flops},
            [&] { Gemm(ctx, *matrix, x.data(), rows, y.data()); });
      }
    }
  }
}

// All products of a step of the shipped model, one after the other: together its weights are larger
// than the second-level cache, which keeps those of one product that is run again and again.
void BenchStepProducts(OpReport& report) {
  OpContext ctx(ProductIsa() == "avx2" ? Isa::kAvx2 : DetectIsa());
  const DType dtype = Bf16Supported() ? DType::kBf16 : DType::kFloat32;
  const bool bf16 = dtype == DType::kBf16;
  std::vector<PackedMatrix> step;
  int64_t weights = 0, numbers = 0;  // of a row: what products read and write
  const auto add = [&](int64_t n, int64_t k) {
    auto matrix = PackedMatrix::Create(Numbers(n * k, 1).data(), n, k, dtype);
    RECOLLECT_CHECK(matrix.ok());
    step.push_back(*std::move(matrix));
    weights += n * k;
    numbers += n + k;
  };
  for (int layer = 0; layer < 5; ++layer) {
    add(5 * kWidth, kWidth);
    add(kWidth, kWidth);
    if (layer >= 3) {  // GCA
      add(kWidth, kWidth);
      add(kWidth, kWidth);
    }
    add(2 * kFfn, kWidth);
    add(kWidth, kFfn);
  }
  add(kVocabulary, kWidth);
  for (int64_t rows : {int64_t{1}, kRows}) {
    const std::vector<float> x = Numbers(rows * kFfn, 2);
    std::vector<float> y(rows * kVocabulary);
    report.Add("products of a step " + std::to_string(rows), bf16 ? "bf16" : "fp32", rows,
               {2.0 * static_cast<double>(rows * weights),
                static_cast<double>(weights) * (bf16 ? sizeof(Bf16) : sizeof(float)) +
                    Floats(rows * numbers),
                bf16 ? report.ceilings().bf16_flops : report.ceilings().fp32_flops},
               [&] {
                 for (const PackedMatrix& matrix : step)
                   Gemm(ctx, matrix, x.data(), rows, y.data());
               });
  }
}

void BenchGca(OpReport& report) {
  constexpr int kChunks = 8, kMemoryRows = 63;
  OpContext best;
  const GcaShape shape{kHeads, kHeads, kHeadDim};
  std::vector<std::vector<Bf16>> memory;
  std::vector<MemoryView> chunks;
  for (int e = 0; e < kChunks; ++e) {
    memory.push_back(Bf16Numbers(2 * kMemoryRows * kWidth, static_cast<uint32_t>(e)));
    chunks.push_back({memory[e].data(), memory[e].data() + kMemoryRows * kWidth, kMemoryRows});
  }
  const std::vector<float> weights(kChunks, 1.0f / kChunks);
  for (int64_t rows : {int64_t{1}, kRows}) {
    const std::vector<float> q = Numbers(rows * kWidth, 3);
    std::vector<float> out(rows * kWidth), expected(rows * kWidth);
    const auto work = [&](double flops) {
      return Work{4.0 * static_cast<double>(rows * kWidth * kChunks * kMemoryRows),
                  Floats(2 * rows * kWidth) +
                      static_cast<double>(2 * kChunks * kMemoryRows * kWidth * sizeof(Bf16)),
                  flops};
    };
    OpContext scalar(Isa::kScalar);
    Gca(scalar, shape, q.data(), rows, chunks.data(), weights.data(), kChunks, expected.data());
    ForEachFast([&](Isa isa) {
      OpContext ctx(isa);
      const auto run = [&] {
        Gca(ctx, shape, q.data(), rows, chunks.data(), weights.data(), kChunks, out.data());
      };
      run();
      CheckClose(out, expected);
      report.Add("gca " + std::to_string(rows), IsaName(isa), rows,
                 work(report.ceilings().fp32_flops), run);
    });
    for (const PairCode& code : PairCodes(DetectIsa())) {
      report.Add("gca " + std::to_string(rows), code.name, rows, work(report.ceilings().bf16_flops),
                 [&] {
                   GcaByPairs(best, code, shape, q.data(), rows, chunks.data(), weights.data(),
                              kChunks, out.data());
                 });
    }
  }
}

// The heads of RAttention's published 3B model.
void BenchLinearAttention(OpReport& report) {
  const LinearAttentionShape shape{.heads = 16, .kv_heads = 4, .head_dim = 128};
  constexpr int64_t kFeatures = 256, kStateFloats = 4 * kFeatures * 128;
  for (int64_t rows : {int64_t{1}, kRows}) {
    const std::vector<float> q = Numbers(rows * shape.heads * kFeatures, 1);
    const std::vector<float> keys = Numbers(rows * shape.kv_heads * kFeatures, 2);
    const std::vector<float> values = Numbers(rows * shape.kv_heads * 128, 3);
    const EnteringRows entering{keys.data(), values.data(), rows};
    std::vector<float> out(rows * shape.heads * 128);
    ForEachFast([&](Isa isa) {
      OpContext ctx(isa);
      std::vector<float> state(kStateFloats);
      report.Add(
          "linear_attention " + std::to_string(rows), IsaName(isa), rows,
          {2.0 * static_cast<double>(rows * kFeatures * 128 * (shape.heads + shape.kv_heads)),
           Floats(std::ssize(q) + std::ssize(keys) + std::ssize(values) + std::ssize(out) +
                  2 * kStateFloats),
           report.ceilings().fp32_flops},
          [&] {
            LinearAttention(ctx, shape, q.data(), rows, entering, nullptr, state.data(),
                            out.data());
          });
    });
  }
}

// What the project's own models run.
void BenchOwnModels(OpReport& report) {
  BenchGemm(report);
  BenchStepProducts(report);
  BenchRangeAttention(report);
  BenchGca(report);
  BenchLinearAttention(report);
  BenchRowOps(report);
  BenchLandmarks(report);
}

int Main(int argc, char** argv) {
  std::string json_path;
  CLI::App app("Times the operations of the CPU.");
  app.add_option("--json", json_path);
  bool pretrained = false;
  app.add_flag("--pretrained", pretrained,
               "What a pretrained model of 135 M runs, instead of our own.");
  CLI11_PARSE(app, argc, argv);
  const Ceilings ceilings = MeasureCeilings();
  std::printf(
      "%s, one thread, products by %s: fp32 product %.1f Gflop/s, bf16 product %.1f Gflop/s, "
      "int8 product %.1f Gop/s, "
      "memory %.1f GB/s, "
      "cache %.1f GB/s\n\n",
      CpuName().c_str(), ProductIsa().c_str(), ceilings.fp32_flops / 1e9, ceilings.bf16_flops / 1e9,
      ceilings.int8_flops / 1e9, ceilings.read_bytes / 1e9, ceilings.cache_bytes / 1e9);
  OpReport report(ceilings);
  if (pretrained) {
    BenchQuantProducts(report);
    BenchGroupedAttention(report);
  } else {
    BenchOwnModels(report);
  }
  if (!json_path.empty()) {
    std::ofstream(json_path) << nlohmann::json{{"cpu", CpuName()},
                                               {"isa", IsaName(DetectIsa())},
                                               {"product_isa", ProductIsa()},
                                               {"threads", 1},
                                               {"cache",
                                                "warm, except for landmarks of 16 M tokens"},
                                               {"fp32_flop_per_s", ceilings.fp32_flops},
                                               {"bf16_flop_per_s", ceilings.bf16_flops},
                                               {"int8_op_per_s", ceilings.int8_flops},
                                               {"read_byte_per_s", ceilings.read_bytes},
                                               {"cache_read_byte_per_s", ceilings.cache_bytes},
                                               {"ops", report.rows()}}
                                    .dump(1)
                             << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) { return recollect::bench::Main(argc, argv); }
