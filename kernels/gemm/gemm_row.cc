#include "kernels/gemm/gemm_row.h"

#include <algorithm>
#include <cstring>
#include <map>
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
  const int64_t last = n / kAmxPanel - 1, half = kAmxPanel / 2;
  // The last panel is cut, so that two threads have as much to do with an odd number of panels.
  const int parts = static_cast<int>(last + 2);
  TwoEnds order(parts);
  ctx.Share(parts, [&](OpContext& own, int) {
    const int part = order.Next(own);
    const int64_t panel = std::min<int64_t>(part, last), first = part > last ? half : 0;
    avx512::MultiplyRow({.weights = numbers + panel * kAmxPanel * k + first * 2,
                         .x = reinterpret_cast<const uint16_t*>(x),
                         .k = k,
                         .outputs = panel < last ? kAmxPanel : half},
                        y + panel * kAmxPanel + first);
  });
}

void ReadRowSoon(OpContext& ctx, const dnnl::memory& weights, int64_t n, int64_t k) {
  const auto* const numbers = static_cast<const uint16_t*>(weights.get_data_handle());
  const int64_t panels = n / kAmxPanel;
  for (int64_t panel = panels - 1; panel >= panels / 2; --panel) {
    constexpr int64_t kBytes = kAmxPanel * static_cast<int64_t>(sizeof(uint16_t));
    ctx.team()->ahead().Add(numbers + panel * kAmxPanel * k, kBytes * k);
  }
}

#else

bool RowHasBitsOf(const Plan&, int64_t, int64_t, DType) { return false; }
void GemmRow(OpContext&, const dnnl::memory&, int64_t, int64_t, const Bf16*, float*) {}
void ReadRowSoon(OpContext&, const dnnl::memory&, int64_t, int64_t) {}

#endif

}  // namespace recollect::kernels
