#include "bench/kernels/op_report.h"

#include <cmath>
#include <cstdio>
#include <random>

#include "base/check.h"
#include "bench/kernels/timing.h"

namespace recollect::bench {

OpReport::OpReport(const Ceilings& ceilings) : ceilings_(ceilings) {
  std::printf("%-26s %-7s %10s %7s %12s %12s %9s %8s\n", "op", "code", "us", "spread", "us per row",
              "rate", "flop/byte", "ceiling");
}

void OpReport::Add(const std::string& op, const char* code, int64_t rows, const Work& work,
                   const std::function<void()>& run) {
  const Timing timing = Measure(run);
  const bool computes = work.flops_ceiling > 0;
  const double flop_rate = work.flops / timing.median_s, byte_rate = work.bytes / timing.median_s;
  const double share = computes ? flop_rate / work.flops_ceiling : byte_rate / ceilings_.read_bytes;
  std::printf("%-26s %-7s %10.2f %6.1f%% %12.3f %7.1f %s %9.2f %7.1f%%\n", op.c_str(), code,
              timing.median_s * 1e6, timing.spread * 100, timing.median_s * 1e6 / rows,
              (computes ? flop_rate : byte_rate) / 1e9, computes ? "Gf/s" : "GB/s",
              work.flops / work.bytes, share * 100);
  std::fflush(stdout);
  rows_.push_back({{"op", op},
                   {"code", code},
                   {"rows", rows},
                   {"median_us", timing.median_s * 1e6},
                   {"spread", timing.spread},
                   {"flops", work.flops},
                   {"bytes", work.bytes},
                   {"flop_per_s", flop_rate},
                   {"byte_per_s", byte_rate},
                   {"fraction_of_ceiling", share}});
}

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

void CheckClose(const std::vector<float>& actual, const std::vector<float>& expected) {
  for (size_t i = 0; i < actual.size(); ++i) {
    RECOLLECT_CHECK(std::abs(actual[i] - expected[i]) <= 1e-4 * (1 + std::abs(expected[i])));
  }
}

}  // namespace recollect::bench
