// The table and the JSON rows of kernels_bench, and helpers of its operations.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/numeric/bf16.h"
#include "bench/kernels/ceilings.h"
#include "kernels/cpu/op_context.h"

namespace recollect::bench {

// The work of one call, by its shapes. flops: additions, multiplications, comparisons and
// exponentials, one each, also of integers. bytes: each byte of its inputs and outputs once,
// however often it is read.
struct Work {
  double flops = 0, bytes = 0;
  // The ceiling of its flop/s; 0: its bytes are compared with the memory bandwidth.
  double flops_ceiling = 0;
};

class OpReport {
 public:
  explicit OpReport(const Ceilings& ceilings);

  // Times `run`, each call of which processes `rows` rows, and adds a row. `code`: the instruction
  // set, or the number format of a product.
  void Add(const std::string& op, const char* code, int64_t rows, const Work& work,
           const std::function<void()>& run);
  const Ceilings& ceilings() const { return ceilings_; }
  const nlohmann::json& rows() const { return rows_; }

 private:
  const Ceilings ceilings_;
  nlohmann::json rows_ = nlohmann::json::array();
};

// Sizes of the shipped model, and of a slice.
inline constexpr int kHeads = 4, kHeadDim = 64;
inline constexpr int64_t kWidth = kHeads * kHeadDim, kFfn = 640, kVocabulary = 4096;
inline constexpr int64_t kRows = 64;

// Returns the bytes of `count` fp32 numbers.
inline double Floats(int64_t count) { return static_cast<double>(count) * sizeof(float); }

std::vector<float> Numbers(int64_t count, uint32_t seed);
std::vector<Bf16> Bf16Numbers(int64_t count, uint32_t seed);

// Aborts if a number differs from the expected one e by more than 1e-4 * (1 + |e|).
void CheckClose(const std::vector<float>& actual, const std::vector<float>& expected);

// Visits every instruction set of vector code that this CPU has; the scalar reference's answer is
// the check.
template <typename Visit>
void ForEachFast(Visit&& visit) {
  for (const kernels::Isa isa : {kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    if (isa <= kernels::DetectIsa()) visit(isa);
  }
}

// Searches in landmark keys of 16 K, 1 M and 16 M tokens, by reading all of them and by a sketch.
void BenchLandmarks(OpReport& report);
// Products with quantised weights at the shapes of a pretrained model, by the code of each
// instruction set.
void BenchQuantProducts(OpReport& report);
// Attention over a few ranges of a cache, as the project's own models run it.
void BenchRangeAttention(OpReport& report);
// Attention of a pretrained model to all positions before, with grouped heads.
void BenchGroupedAttention(OpReport& report);
// Norms, gates, rotation, scan, and operations on logits and chunk states.
void BenchRowOps(OpReport& report);

}  // namespace recollect::bench
