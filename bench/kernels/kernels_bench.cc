// Each op at the sizes a served 7M model has (d 256, 4 heads of 64, FFN 640), one thread, each
// implementation of its table, as a fraction of the machine's ceilings.
//
//   kernels_bench [--json FILE]
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/check.h"
#include "bench/kernels/ceilings.h"
#include "bench/kernels/timing.h"
#include "kernels/cpu/op_context.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gated_scan/gated_scan.h"
#include "kernels/gca/gca.h"
#include "kernels/gemm/gemm.h"
#include "kernels/landmark_topk/landmark_sketch.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/range_attention/range_attention.h"
#include "kernels/rope/rope.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

constexpr int kHeads = 4, kHeadDim = 64;
constexpr int64_t kWidth = kHeads * kHeadDim, kFfn = 640, kVocabulary = 4096;
constexpr int64_t kRows = 64;

std::vector<float> Numbers(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(generator);
  return numbers;
}

std::vector<Bf16> Bf16Numbers(int64_t count, uint32_t seed) {
  std::vector<Bf16> numbers;
  for (float number : Numbers(count, seed)) numbers.push_back(Bf16::FromFloat(number));
  return numbers;
}

class Report {
 public:
  explicit Report(const Ceilings& ceilings) : ceilings_(ceilings) {
    std::printf("%-26s %-7s %10s %7s %12s %12s %8s\n", "op", "code", "us", "spread", "us per row",
                "rate", "ceiling");
  }

  // One call of `run` does `rows` rows; `flops` and `bytes` are what it has to compute and to read,
  // 0 for do not say.
  void Add(const std::string& op, const char* code, int64_t rows, double flops, double bytes,
           double flops_ceiling, const std::function<void()>& run) {
    const Timing timing = Measure(run);
    const double rate = (flops > 0 ? flops : bytes) / timing.median_s;
    const double share = rate / (flops > 0 ? flops_ceiling : ceilings_.read_bytes);
    std::printf("%-26s %-7s %10.2f %6.1f%% %12.3f %7.1f %s %7.1f%%\n", op.c_str(), code,
                timing.median_s * 1e6, timing.spread * 100, timing.median_s * 1e6 / rows,
                rate / 1e9, flops > 0 ? "Gf/s" : "GB/s", share * 100);
    std::fflush(stdout);
    rows_.push_back({{"op", op},
                     {"code", code},
                     {"rows", rows},
                     {"median_us", timing.median_s * 1e6},
                     {"spread", timing.spread},
                     {flops > 0 ? "flop_per_s" : "byte_per_s", rate},
                     {"fraction_of_ceiling", share}});
  }
  const Ceilings& ceilings() const { return ceilings_; }
  const nlohmann::json& rows() const { return rows_; }

 private:
  const Ceilings ceilings_;
  nlohmann::json rows_ = nlohmann::json::array();
};

void CheckClose(const std::vector<float>& actual, const std::vector<float>& expected) {
  for (size_t i = 0; i < actual.size(); ++i) {
    RECOLLECT_CHECK(std::abs(actual[i] - expected[i]) <= 1e-4 * (1 + std::abs(expected[i])));
  }
}

// Every instruction set of vector code here; the scalar reference's answer is the check.
template <typename Visit>
void ForEachFast(Visit&& visit) {
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= DetectIsa()) visit(isa);
  }
}

void BenchGemm(Report& report) {
  OpContext ctx;
  for (DType dtype : {DType::kBf16, DType::kFloat32}) {
    const bool bf16 = dtype == DType::kBf16;
    if (bf16 && !Bf16Supported()) continue;
    const auto [n_in, n_up] = std::pair{5 * kWidth, 2 * kFfn};
    for (auto [n, k] : {std::pair{n_in, kWidth},
                        {kWidth, kWidth},
                        {n_up, kWidth},
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
            bf16 ? "bf16" : "fp32", rows, 2.0 * static_cast<double>(rows * n * k), 0,
            bf16 ? report.ceilings().bf16_flops : report.ceilings().fp32_flops,
            [&] { Gemm(ctx, *matrix, x.data(), rows, y.data()); });
      }
    }
  }
}

void BenchRangeAttention(Report& report) {
  constexpr int64_t kEntries = 256, kWindow = 129, kDilated = 56;
  const std::vector<float> keys = Numbers(kEntries * kWidth, 1),
                           values = Numbers(kEntries * kWidth, 2);
  const KvSpan part{keys.data(), values.data()};
  const RangeShape shape{kHeads, kHeads, kHeadDim};
  for (int64_t rows : {int64_t{1}, kRows}) {
    const std::vector<float> q = Numbers(rows * kWidth, 3);
    std::vector<RangeSet> sets(rows);
    for (int64_t r = 0; r < rows; ++r) {
      sets[r].ranges[1] = {r / 16, r / 16 + kDilated};
      sets[r].ranges[2] = {r, r + kWindow};
    }
    std::vector<float> out(rows * kWidth), expected(rows * kWidth);
    OpContext scalar(Isa::kScalar);
    RangeAttention(scalar, shape, q.data(), kWidth, rows, {part, part, part}, sets.data(),
                   expected.data());
    ForEachFast([&](Isa isa) {
      OpContext ctx(isa);
      const auto run = [&] {
        RangeAttention(ctx, shape, q.data(), kWidth, rows, {part, part, part}, sets.data(),
                       out.data());
      };
      run();
      CheckClose(out, expected);
      report.Add("range_attention " + std::to_string(rows), IsaName(isa), rows,
                 4.0 * static_cast<double>(rows * kWidth * (kWindow + kDilated)), 0,
                 report.ceilings().fp32_flops, run);
    });
  }
}

void BenchGca(Report& report) {
  constexpr int kChunks = 8, kMemoryRows = 63;
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
                 4.0 * static_cast<double>(rows * kWidth * kChunks * kMemoryRows), 0,
                 report.ceilings().fp32_flops, run);
    });
  }
}

// The heads of RAttention's published 3B model.
void BenchLinearAttention(Report& report) {
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
      report.Add("linear_attention " + std::to_string(rows), IsaName(isa), rows,
                 2.0 * static_cast<double>(rows * kFeatures * 128 * (shape.heads + shape.kv_heads)),
                 0, report.ceilings().fp32_flops, [&] {
                   LinearAttention(ctx, shape, q.data(), rows, entering, nullptr, state.data(),
                                   out.data());
                 });
    });
  }
}

void BenchRowOps(Report& report) {
  const std::vector<float> x = Numbers(kRows * 5 * kWidth, 1), gain = Numbers(2 * kFfn, 2);
  std::vector<float> y(kRows * 2 * kFfn), state(kWidth);
  const auto bytes = [](int64_t floats_per_row) {
    return static_cast<double>(kRows * floats_per_row) * sizeof(float);
  };
  ForEachFast([&](Isa isa) {
    OpContext ctx(isa);
    report.Add("rms_norm", IsaName(isa), kRows, 0, bytes(2 * kWidth), 0,
               [&] { RmsNorm(ctx, x.data(), gain.data(), 1e-6f, kRows, kWidth, y.data()); });
  });
  ForEachFast([&](Isa isa) {
    OpContext ctx(isa);
    report.Add("swiglu", IsaName(isa), kRows, 0, bytes(3 * kFfn), 0,
               [&] { SwiGlu(ctx, x.data(), kRows, kFfn, y.data()); });
  });
  ForEachFast([&](Isa isa) {
    OpContext ctx(isa);
    report.Add("sigmoid_gate", IsaName(isa), kRows, 0, bytes(3 * kWidth), 0,
               [&] { SigmoidGate(ctx, x.data(), 4 * kWidth, x.data(), kRows, kWidth, y.data()); });
  });
  ForEachFast([&](Isa isa) {
    OpContext ctx(isa);
    report.Add("rope", IsaName(isa), kRows, 0, bytes(2 * kWidth), 0,
               [&] { Rope(ctx, {}, 1000000, kRows, kWidth, kHeads, kHeadDim, y.data()); });
  });
  ForEachFast([&](Isa isa) {
    OpContext ctx(isa);
    report.Add("gated_scan", IsaName(isa), kRows, 0, bytes(3 * kWidth), 0, [&] {
      GatedScan(ctx, x.data() + kWidth, gain.data(), x.data(), 5 * kWidth, kRows, kWidth,
                state.data(), y.data(), kWidth);
    });
  });
}

// Keys [count, 640] as the shipped model's are: 256 numbers in 30 directions beside a mean, 384
// that are alike. Some thousand, again and again.
std::vector<Bf16> LandmarkKeys(const SketchShape& shape, int64_t count) {
  constexpr int64_t kDistinct = 16384, kDirections = 30;
  const std::vector<float> directions = Numbers(kDirections * shape.dense, 1);
  const std::vector<float> along = Numbers(kDistinct * kDirections, 2);
  const std::vector<float> mean = Numbers(shape.width, 3);
  std::vector<float> key = Numbers(kDistinct * shape.width, 4);
  std::vector<Bf16> keys;
  keys.reserve(static_cast<size_t>((count + kDistinct) * shape.width));
  for (int64_t k = 0; k < kDistinct; ++k) {
    for (int64_t i = 0; i < shape.width; ++i) {
      float number = key[k * shape.width + i];
      if (i < shape.dense) {
        number *= 0.002f;
        for (int64_t r = 0; r < kDirections; ++r) {
          number += 0.1f * along[k * kDirections + r] * directions[r * shape.dense + i];
        }
      }
      keys.push_back(Bf16::FromFloat(number + mean[i]));
    }
  }
  while (std::ssize(keys) < count * shape.width) {
    keys.insert(keys.end(), keys.begin(), keys.begin() + kDistinct * shape.width);
  }
  keys.resize(static_cast<size_t>(count * shape.width));
  return keys;
}

// The landmark keys of 16 K, 1 M and 16 M tokens, with all keys read and with a sketch. Bytes are
// those of what is read in order, the keys or the sketch.
void BenchLandmarks(Report& report) {
  constexpr SketchShape kShape{640, 256};
  for (const int64_t count : {290, 18500, 290000}) {
    const std::vector<Bf16> keys = LandmarkKeys(kShape, count);
    LandmarkSketch sketch(kShape, keys.data(), count);
    OpContext encoding;
    sketch.Encode(encoding, keys.data(), 0, sketch.blocks());
    // The encoder's numbers count for more than the others in queries, too.
    std::vector<float> query = Numbers(kShape.width, 5);
    for (int64_t i = 0; i < kShape.dense; ++i) query[i] *= 4;
    const KeySegment plain{keys.data(), count}, sketched{keys.data(), count, &sketch, 0};
    ForEachFast([&](Isa isa) {
      OpContext ctx(isa);
      std::vector<ScoredCandidate> best, expected;
      const std::string of = std::to_string(count);
      report.Add("landmark_topk " + of, IsaName(isa), 1, 0,
                 static_cast<double>(keys.size() * sizeof(Bf16)), 0, [&] {
                   expected = LandmarkTopK(ctx, query, {&plain, 1}, 8);
                 });
      report.Add("landmark sketch " + of, IsaName(isa), 1, 0,
                 static_cast<double>(LandmarkSketch::BytesOf(kShape, count)), 0, [&] {
                   best = LandmarkTopK(ctx, query, {&sketched, 1}, 8);
                 });
      RECOLLECT_CHECK(best == expected);
    });
  }
}

int Main(int argc, char** argv) {
  std::string json_path;
  CLI::App app("Times the operations of the CPU.");
  app.add_option("--json", json_path);
  CLI11_PARSE(app, argc, argv);
  const Ceilings ceilings = MeasureCeilings();
  std::printf(
      "%s, one thread: fp32 product %.1f Gflop/s, bf16 product %.1f Gflop/s, memory %.1f GB/s\n\n",
      CpuName().c_str(), ceilings.fp32_flops / 1e9, ceilings.bf16_flops / 1e9,
      ceilings.read_bytes / 1e9);
  Report report(ceilings);
  BenchGemm(report);
  BenchRangeAttention(report);
  BenchGca(report);
  BenchLinearAttention(report);
  BenchRowOps(report);
  BenchLandmarks(report);
  if (!json_path.empty()) {
    std::ofstream(json_path) << nlohmann::json{{"cpu", CpuName()},
                                               {"isa", IsaName(DetectIsa())},
                                               {"threads", 1},
                                               {"cache",
                                                "warm, except for landmarks of 16 M tokens"},
                                               {"fp32_flop_per_s", ceilings.fp32_flops},
                                               {"bf16_flop_per_s", ceilings.bf16_flops},
                                               {"read_byte_per_s", ceilings.read_bytes},
                                               {"ops", report.rows()}}
                                    .dump(1)
                             << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) { return recollect::bench::Main(argc, argv); }
