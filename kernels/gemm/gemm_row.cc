#include "kernels/gemm/gemm_row.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "base/sync/mutex.h"
#include "kernels/cpu/op_team.h"
#include "kernels/gemm/row_outputs.h"

namespace recollect::kernels {
namespace {

#if defined(RECOLLECT_SIMD)

bool TestRowsAgree(const Plan& plan, int64_t n, int64_t k, DType dtype) {
  TestProduct test(n, k, dtype, plan.weights);
  int size = 0;
  while (!plan.tiles[size].usable) ++size;
  const std::vector<float> expected = test.Outputs(plan, size, test.weights(), n);
  OpContext ctx;
  std::vector<float> y(static_cast<size_t>(n));
  for (int row = 0; row < kTileRows[kReferenceTile]; ++row) {
    GemmRow(ctx, test.weights(), n, k, static_cast<const Bf16*>(test.row(row)), y.data());
    if (std::memcmp(y.data(), expected.data() + row * n, y.size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

// The panels of those who serve.
std::span<const uint16_t> SecondHalf(const uint16_t* weights, int64_t n, int64_t k) {
  const int64_t first = n / kAmxPanel / 2 * kAmxPanel;
  return {weights + first * k, static_cast<size_t>((n - first) * k)};
}

#endif

}  // namespace

#if defined(RECOLLECT_SIMD)

bool RowHasBitsOf(const Plan& plan, int64_t n, int64_t k, DType dtype) {
  if (dtype != DType::kBf16 || DetectIsa() != Isa::kAvx512 || !LieInPanels(n, k, plan.weights)) {
    return false;
  }
  static auto* const mutex = new Mutex;
  static auto* const known = new std::map<std::tuple<int64_t, int64_t>, bool>;
  MutexLock lock(*mutex);
  const auto [found, is_new] = known->try_emplace({n, k}, false);
  if (is_new) found->second = TestRowsAgree(plan, n, k, dtype);
  return found->second;
}

void GemmRow(OpContext& ctx, const dnnl::memory& weights, int64_t n, int64_t k, const Bf16* x,
             float* y) {
  const auto* const numbers = static_cast<const uint16_t*>(weights.get_data_handle());
  // The panel in the middle is cut, so that two threads have as much to do with an odd number.
  const int64_t cut = n / kAmxPanel / 2, half = kAmxPanel / 2;
  const int parts = static_cast<int>(n / kAmxPanel + 1);
  if (ctx.has_team()) ctx.team()->ahead().Reached(SecondHalf(numbers, n, k).data());
  TwoHalves order(parts);
  ctx.Share(parts, [&](OpContext& own, int) {
    const int64_t part = order.Next(own);
    const int64_t panel = part > cut ? part - 1 : part, first = part == cut + 1 ? half : 0;
    avx512::MultiplyRow({.weights = numbers + panel * kAmxPanel * k + first * 2,
                         .x = reinterpret_cast<const uint16_t*>(x),
                         .k = k,
                         .outputs = panel == cut ? half : kAmxPanel},
                        y + panel * kAmxPanel + first);
  });
}

void ReadRowSoon(OpContext& ctx, const dnnl::memory& weights, int64_t n, int64_t k) {
  const auto* const numbers = static_cast<const uint16_t*>(weights.get_data_handle());
  const std::span<const uint16_t> half = SecondHalf(numbers, n, k);
  ctx.team()->ahead().Add(half.data(), static_cast<int64_t>(half.size_bytes()));
}

#else

bool RowHasBitsOf(const Plan&, int64_t, int64_t, DType) { return false; }
void GemmRow(OpContext&, const dnnl::memory&, int64_t, int64_t, const Bf16*, float*) {}
void ReadRowSoon(OpContext&, const dnnl::memory&, int64_t, int64_t) {}

#endif

}  // namespace recollect::kernels
